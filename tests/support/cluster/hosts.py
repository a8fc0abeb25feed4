"""Imitated hosts on this machine, each with its own host name and network, connected by a bridge."""

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

from benchmarks import campaign

__all__ = ["Host", "another_clock", "hosts"]

_PREFIX = "bench-test"
_CLOCK = Path(campaign.__file__).with_name("clock.c")


@dataclass(frozen=True)
class Host:
    """Imitated host. It shares files, processes and clock with this machine.

    Attributes
    ----------
    address
        Address on the bridge; the other hosts also resolve the host's name.
    """

    name: str
    address: str
    space: str

    @property
    def through(self) -> list[str]:
        """Prefix of a command that runs another one on this host."""
        named = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", named, self.name]


@contextlib.contextmanager
def hosts(*names: str) -> Iterator[list[Host]]:
    """Yield hosts of these names; skip where this machine or user cannot create them.

    The bridge has a network of its own, so this machine's network does not change.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may create networks: run the tests as root")
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
            pytest.skip(f"this machine cannot create hosts: {' '.join(error.cmd[:6])}: {error.stderr.strip()}")
        yield made


def another_clock(folder: Path, seconds: int) -> dict[str, str]:
    """Return the environment of programs with a clock that is `seconds` ahead; skip without a compiler."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no cc for the library that shifts the clock of programs: install gcc")
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
    """Make all names resolvable, by files that are mounted over those in the host's /etc."""
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
