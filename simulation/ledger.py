"""State of the simulated GPUs, in one small file that all processes of a home share."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TypedDict, cast

from hypergauge.core.files import private

__all__ = ["DeviceState", "GpuState", "InstanceState", "Ledger", "ProcessState", "WorldState"]

_MEMORY = Path("/dev/shm")  # noqa: S108 - what lies there is private by its mode
_PREFIX = "hypergauge-"
_OF = "of"  # beside a world, the file that leads to it


class InstanceState(TypedDict):
    """A GPU instance: its id as the driver gives it, and the UUID of its compute instance where it has one."""

    serial: int
    id: int
    profile: str
    start: int
    uuid: str | None


class GpuState(TypedDict):
    """A GPU's board; watts, joules since the driver was loaded, Celsius."""

    uuid: str
    mig: bool
    lost: bool
    throttle: int
    power: float
    energy: float
    temperature: float
    instances: list[InstanceState]


class DeviceState(TypedDict):
    """Compute device, a GPU or a MIG instance: busy seconds of its SMs, and their activity now.

    `linked` are the seconds of those that used several devices and so the links between them.
    """

    busy: float
    linked: float
    activity: float


class ProcessState(TypedDict):
    """A process that is or was on devices; `cpu` is what it had used by then, `busy` its seconds on each device.

    `ended` is when it was found gone, in seconds since the host booted.
    """

    cpu: float
    resident: int
    mps: bool
    cap: float
    busy: dict[str, float]
    activity: dict[str, float]
    ended: float | None


class WorldState(TypedDict):
    """All of it at one moment, `at` in seconds since the host booted and `time` in Unix seconds."""

    specification: str
    boot: str
    driver: int
    serial: int
    at: float
    time: float
    gpus: list[GpuState]
    devices: dict[str, DeviceState]
    processes: dict[str, ProcessState]
    xids: list[tuple[int, int, int]]


class Ledger:
    """The state of a world, in a file of `folder` or, without one, in this process alone.

    It is replaced as a whole, so nobody ever reads half of it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = folder and folder / "world.json"
        self._lock = RLock()
        self._text: bytes = b""
        self._stamp: tuple[int, int] | None = None
        self._state: WorldState | None = None

    def read(self) -> WorldState | None:
        """Return the state, not to be changed; ``None`` where there is none that can be read."""
        with self._lock:
            if self._file is not None:
                self._refresh(self._file)
            return self._state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others from writing."""
        with self._lock:
            if self._file is None:
                yield
                return
            private.make_folder(self._file.parent)
            descriptor = os.open(self._file.with_name("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)

    def copy(self) -> WorldState | None:
        """Return a copy of the state that may be changed and then written, under `locked`."""
        return None if self.read() is None else _parse(self._text)

    def write(self, state: WorldState) -> None:
        """Make `state` the state, under `locked`; it must not be changed afterwards."""
        self._text = json.dumps(state, separators=(",", ":")).encode()
        self._state = state
        if self._file is not None:
            file = _in_memory(self._file)
            new = file.with_suffix(".new")
            with private.opened(new, "wb") as opened:
                opened.write(self._text)
            new.replace(file)
            self._stamp = _stamp(file)

    def _refresh(self, file: Path) -> None:
        stamp = _stamp(file)
        if stamp is None or stamp != self._stamp:
            self._text, self._state, self._stamp = b"", None, None
            with suppress(OSError, ValueError):
                self._text = file.read_bytes()
                self._state = _parse(self._text)
                self._stamp = stamp  # taken before: what was written since is read again


def _in_memory(file: Path) -> Path:
    """Return where `file` leads: to memory, on a host that has a folder for that.

    Replacing a file on a disk waits for what others write there, under load for seconds, and every exporter would wait
    with it. The host's memory keeps a world for as long as the world means anything, until the host goes down.
    """
    if not file.exists():
        _sweep()
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
            file.unlink(missing_ok=True)  # it leads to what a host had in memory before it went down
            file.symlink_to(folder / file.name)
            (folder / _OF).symlink_to(file.absolute())
    return file.resolve()


def _sweep() -> None:
    """Remove the worlds of homes that are gone."""
    for folder in _MEMORY.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # that of another user
            if (folder / _OF).readlink().resolve().parent != folder:
                shutil.rmtree(folder)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _parse(text: bytes) -> WorldState:
    state = json.loads(text)
    if not isinstance(state, dict):
        raise ValueError("no state of a world")
    return cast("WorldState", state)
