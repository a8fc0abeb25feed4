"""Load on the simulated GPUs: the processes of runs that use them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from hypergauge.core.system.processes import RUN_VARIABLE, SETTLED_SECONDS, ProcessStat, read_environment, read_stat

__all__ = ["Client", "Watch", "key_of"]

_DEVICES = b"CUDA_VISIBLE_DEVICES"
_PIPES = b"CUDA_MPS_PIPE_DIRECTORY"
_THREADS = b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
# Scans between checks of a process without GPUs: its pid may belong to a new one, see `hypergauge.core.system.processes`.
_BYSTANDER_SCANS = 10


@dataclass(frozen=True, slots=True)
class Client:
    """Process of a run that may use GPUs: `devices` are the UUIDs in its environment, `cap` its share under MPS.

    `devices` is ``None`` where its environment is not readable.
    """

    stat: ProcessStat
    devices: tuple[str, ...] | None = None
    mps: bool = False
    cap: float = 1.0


@dataclass(slots=True)
class _Known:
    created: float
    settled: bool = False
    client: Client | None = None


class Watch:
    """Processes that use GPUs, found by their environment, which is read once per process."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._scans = 0

    def scan(self, known: Iterable[str] = ()) -> dict[str, Client]:
        """Return the processes of runs with devices, including zombies, by `key_of`.

        Parameters
        ----------
        known
            Processes found by other scanners. A live one with an environment that this user may not read is included,
            without devices.
        """
        self._scans += 1
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        there: dict[int, _Known] = {}
        clients: dict[str, Client] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - the cheapest way
            if not name.isdecimal():
                continue
            pid = int(name)
            seen = self._known.get(pid)
            if seen is not None and seen.settled and seen.client is None and (pid + self._scans) % _BYSTANDER_SCANS:
                there[pid] = seen
            elif (seen := self._check(pid, seen, uptime)) is not None:
                there[pid] = seen
                if seen.client is not None:
                    clients[key_of(seen.client.stat)] = seen.client
        self._known = there
        clients.update(_hidden(key for key in known if key not in clients))
        return clients

    @staticmethod
    def _check(pid: int, seen: _Known | None, uptime: float) -> _Known | None:
        if (stat := read_stat(pid)) is None:
            return None
        if seen is None or seen.created != stat.created:
            seen = _Known(stat.created)
        if (client := seen.client) is not None and (seen.settled or stat.zombie):
            seen.client = Client(stat, client.devices, client.mps, client.cap)
        else:
            seen.client = _client(stat)
        seen.settled = uptime - stat.created > SETTLED_SECONDS
        return seen


def key_of(stat: ProcessStat) -> str:
    """Return the key of a process, unique since the host booted."""
    return f"{stat.pid}@{stat.created}"


def _client(stat: ProcessStat) -> Client | None:
    variables = read_environment(stat.pid, (RUN_VARIABLE, _DEVICES, _PIPES, _THREADS))
    if not variables or RUN_VARIABLE not in variables or _DEVICES not in variables:
        return None
    devices = tuple(name.strip() for name in variables[_DEVICES].decode(errors="replace").split(","))
    try:
        cap = float(variables.get(_THREADS, b"100")) / 100
    except ValueError:
        cap = 1.0
    return Client(stat, devices, _PIPES in variables or _THREADS in variables, min(max(cap, 0.0), 1.0))


def _hidden(keys: Iterable[str]) -> dict[str, Client]:
    hidden = {}
    for key in keys:
        stat = read_stat(int(key.partition("@")[0]))
        if stat is not None and key_of(stat) == key and (stat.zombie or read_environment(stat.pid, ()) is None):
            hidden[key] = Client(stat)
    return hidden
