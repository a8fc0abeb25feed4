"""Hosts imitated on this machine: each with a name and a network of its own, and a bridge between them."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import benchmarks

__all__ = ["Host", "another_clock", "hosts"]

_PREFIX = "bench-test"
_CLOCK = Path(benchmarks.__file__).with_name("clock.c")


@dataclass(frozen=True)
class Host:
    """One of them. They share files, processes and clocks with this machine.

    Attributes
    ----------
    address
        By which the others reach it; they know its name, too.
    """

    name: str
    address: str
    space: str

    @property
    def through(self) -> list[str]:
        """The words of a command that becomes another one on this host."""
        named = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", named, self.name]


@contextlib.contextmanager
def hosts(*names: str) -> Iterator[list[Host]]:
    """Yield hosts of these names; skips where this machine or its user may not make any.

    The bridge has a network of its own: nothing of this machine's changes.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may make networks: run the tests as root")
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: install iproute2 and util-linux")
    wire = f"{_PREFIX}-{os.getpid()}"
    made = [Host(name, f"10.89.0.{number}", f"{wire}-{name}") for number, name in enumerate(names, 1)]
    table = "".join(f"{host.address} {host.name}\n" for host in made)
    with contextlib.ExitStack() as undo:
        try:
            undo.enter_context(_space(wire))
            _ip("-n", wire, "link", "add", "bridge", "type", "bridge")
            _ip("-n", wire, "link", "set", "bridge", "up")
            for number, host in enumerate(made):
                undo.enter_context(_space(host.space))
                own = ("-n", host.space)
                _ip(*own, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", wire)
                _ip("-n", wire, "link", "set", f"port{number}", "master", "bridge", "up")
                _ip(*own, "address", "add", f"{host.address}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _ip(*own, "link", "set", device, "up")
                undo.enter_context(_known(host, f"127.0.0.1 localhost\n{table}"))
            _run([*made[0].through, "true"])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no hosts: {' '.join(error.cmd[:6])}: {error.stderr.strip()}")
        yield made


def another_clock(folder: Path, seconds: int) -> dict[str, str]:
    """Return the variables of programs whose clock is ahead by so much; skips where there is no compiler."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no cc, to make the library that gives programs another clock: install gcc")
    library = folder / "clock.so"
    if not library.exists():
        _run([compiler, "-shared", "-fPIC", "-o", str(library), str(_CLOCK)])
    ahead = folder / f"clock{seconds:+}"
    ahead.write_bytes(struct.pack("q", seconds))
    return {"LD_PRELOAD": str(library), "CLOCK_FILE": str(ahead)}


@contextlib.contextmanager
def _space(name: str) -> Iterator[None]:
    _ip("netns", "add", name)
    try:
        yield
    finally:
        _ip("netns", "delete", name)


@contextlib.contextmanager
def _known(host: Host, table: str) -> Iterator[None]:
    """Let all be known by name: what lies here is put over /etc on that host."""
    folder = Path("/etc/netns") / host.space
    folder.mkdir(parents=True)
    (folder / "hosts").write_text(table)
    try:
        yield
    finally:
        shutil.rmtree(folder)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
