"""State of the simulated GPUs, in one small file shared by all processes of a home."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TypedDict, cast

from hypergauge.core.files import private
from hypergauge.core.files.file_lock import FileLock

__all__ = ["DeviceState", "GpuState", "InstanceState", "Ledger", "ProcessState", "WorldState"]

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folders there are private by their mode
_PREFIX = "hypergauge-"
_OF = "of"  # link in the folder of a world to the home's file


class InstanceState(TypedDict):
    """GPU instance: the driver's id, and the UUID of its compute instance, if any."""

    serial: int
    id: int
    profile: str
    start: int
    uuid: str | None


class GpuState(TypedDict):
    """State of a GPU, in watts, joules since the driver was loaded, and Celsius."""

    uuid: str
    mig: bool
    lost: bool
    throttle: int
    power: float
    energy: float
    temperature: float
    instances: list[InstanceState]


class DeviceState(TypedDict):
    """Compute device, a GPU or a MIG instance: busy seconds and current activity of its SMs.

    `linked` counts busy seconds of processes on several devices, which use the links between them.
    """

    busy: float
    linked: float
    activity: float


class ProcessState(TypedDict):
    """Process on devices, live or ended: `cpu` is its CPU time so far, `busy` its seconds on each device.

    `ended` is the time of its end, in seconds since the host booted.
    """

    cpu: float
    resident: int
    mps: bool
    cap: float
    busy: dict[str, float]
    activity: dict[str, float]
    ended: float | None


class WorldState(TypedDict):
    """State of all GPUs at one time, `at` in seconds since the host booted and `time` in Unix seconds."""

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
    """State of a world, in a file of `folder` or, without one, in this process alone.

    Each write replaces the whole file, so readers never see a part.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = folder and folder / "world.json"
        self._lock = RLock()
        self._text: bytes = b""
        self._stamp: tuple[int, int] | None = None
        self._state: WorldState | None = None

    def read(self) -> WorldState | None:
        """Return the state, which is read-only; ``None`` without a readable file."""
        with self._lock:
            if self._file is not None:
                self._refresh(self._file)
            return self._state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other writers."""
        with self._lock:
            if self._file is None:
                yield
                return
            private.make_folder(self._file.parent)
            with FileLock(self._file.with_name("lock")):
                yield

    def copy(self) -> WorldState | None:
        """Return a copy of the state, to change and write under `locked`."""
        return None if self.read() is None else _parse(self._text)

    def write(self, state: WorldState) -> None:
        """Write a state under `locked`. It is read-only afterwards."""
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
                self._stamp = stamp  # of before the read: a later write is read again


def _in_memory(file: Path) -> Path:
    """Return the target of `file`, which is in memory on a host with ``/dev/shm``.

    Under load, replacing a file on a disk takes seconds, and every exporter would wait for it. A world is valid only until
    the host reboots, as is its memory.
    """
    if not file.exists():
        _sweep()
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
            file.unlink(missing_ok=True)  # a link of before a reboot
            file.symlink_to(folder / file.name)
            (folder / _OF).symlink_to(file.absolute())
    return file.resolve()


def _sweep() -> None:
    """Remove the worlds of deleted homes."""
    for folder in _MEMORY.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user
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
        raise ValueError("not a state of simulated GPUs")
    return cast("WorldState", state)
