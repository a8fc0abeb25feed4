"""Quiet host: a warning before a workload about other programs, and a wait until they have ended.

The times of a run say little while other programs use the cores or the GPU that it needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hypergauge.core.listing import listed
from hypergauge.core.system.other_processes import HostCpu, OtherUse

__all__ = ["QUIET_CORES", "QUIET_SHARE", "Disturbance", "QuietHost"]

# Cores that other processes use on a quiet host, and the share of its cores; the larger of the two applies.
QUIET_CORES = 0.3
QUIET_SHARE = 0.05
# Duration of a measurement: CPU times have a resolution of 10 ms.
_WINDOW_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_NAMED_PROGRAMS = 3

# Programs on each GPU of a workload that are of no run, by the GPU's readable name.
GpuPrograms = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Use of a host by other programs. `allowed` is the number of cores that a quiet host may have in use."""

    cpu: OtherUse
    gpus: GpuPrograms = field(default_factory=dict)
    allowed: float | None = None

    @property
    def quiet(self) -> bool:
        """Return whether it hardly disturbs a run."""
        allowed = max(QUIET_CORES, QUIET_SHARE * self.cpu.cores) if self.allowed is None else self.allowed
        return self.cpu.used <= allowed and not self.gpus

    def __str__(self) -> str:
        parts = [f"{gpu} has {listed(names, _NAMED_PROGRAMS)}" for gpu, names in self.gpus.items()]
        if not self.gpus or not Disturbance(self.cpu, allowed=self.allowed).quiet:
            names = [f"{name} {cores:.1f}" for name, cores in self.cpu.programs]
            named = f" ({listed(names, _NAMED_PROGRAMS)})" if names else ""
            parts.insert(0, f"other processes use {self.cpu.used:.1f} of {self.cpu.cores} cores{named}")
        return "; ".join(parts)


@dataclass
class QuietHost:
    """Warning about other programs before the first workload, or a wait for their end before each.

    Attributes
    ----------
    cpu
        Measurement of the host's cores, which began with the command.
    limit
        Longest wait before a workload, in seconds; ``None`` to warn and not to wait.
    allowed
        Cores that other processes may use; ``None`` for the default.
    sleep, clock
        Replacements of the system's functions, for tests.
    """

    cpu: HostCpu
    limit: float | None = None
    allowed: float | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _has_warned: bool = False

    def before_workload(
        self, gpus: Callable[[], GpuPrograms], notify: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        """Warn about other programs once, or wait for their end.

        Parameters
        ----------
        gpus
            Function that returns the other programs on the workload's GPUs.
        notify, warn
            Receivers of messages about the wait, and of the warning.
        """
        if self.limit is not None:
            self._wait(self.limit, gpus, notify, warn)
        elif not self._has_warned:
            self._has_warned = True
            if self.cpu.seconds < _LEAST_SECONDS:
                self.sleep(_LEAST_SECONDS)
            now = Disturbance(self.cpu.other_use(), gpus(), self.allowed)
            if not now.quiet:
                warn(f"{now}: the times of runs will say little; --quiet-host waits")

    def _wait(
        self, limit: float, gpus: Callable[[], GpuPrograms], notify: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        began, waits = self.clock(), False
        while not (now := self._measured(gpus)).quiet:
            if self.clock() - began >= limit:
                warn(f"starts after {limit:g} s on a host that is not quiet: {now}")
                return
            if not waits:
                notify(f"waits for a quiet host, {limit:g} s at most: {now}")
                waits = True
        if waits:
            notify(f"has a quiet host after {self.clock() - began:.1f} s")

    def _measured(self, gpus: Callable[[], GpuPrograms]) -> Disturbance:
        self.cpu.restart()
        self.sleep(_WINDOW_SECONDS)
        return Disturbance(self.cpu.other_use(), gpus(), self.allowed)
