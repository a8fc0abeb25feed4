"""Metrics of the energy of a host's runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.exporters.energy.cpu_time import CpuTime, CpuTimes
from hypergauge.exporters.energy.split import HostSplit
from hypergauge.exporters.serving.families import Measurement
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["CpuReader", "RunEnergy", "energy_helps"]


class CpuReader(Protocol):
    """Reader of CPU times, such as `CpuTimes`."""

    @property
    def live(self) -> Mapping[str, float | None]:
        """Starts of live runs."""

    @property
    def ended(self) -> Mapping[str, RunEnd]:
        """Ends of the last minute by run."""

    def keeps(self, run_id: str) -> bool:
        """Return whether a run's totals are still needed."""

    def read(self) -> CpuTime | None:
        """Return the CPU time since the last reading."""


def energy_helps(prefix: str, what: str) -> dict[str, str]:
    """Return the help texts of the metrics with a prefix; `what` names the measured part of the host."""
    return {
        f"{prefix}_{name}": text
        for name, text in {
            "idle_energy_joules_total": f"Energy of {what} at idle power.",
            "other_energy_joules_total": f"Energy of {what} beyond idle, for processes of no run.",
            "attributed_energy_joules_total": f"The run's share of the energy of {what} beyond idle, by its CPU time.",
            "run_start_time_seconds": "Start of the run in Unix seconds; its totals were 0 then.",
            "run_end_time_seconds": "End of the run in Unix seconds; its other samples are final.",
        }.items()
    }


class RunEnergy:
    """Split of energy counters of a host among its runs, as metrics.

    As with GPUs, a run's energy is exposed while the run is live. After the end the final totals are exposed for a minute,
    for the collector to date to the run's last millisecond.

    Parameters
    ----------
    prefix
        Prefix of the metrics, see `energy_helps`.
    label
        Label that names the counter.
    cpu
        Replacement for the reader of CPU times.
    """

    def __init__(self, options: ExporterOptions, prefix: str, label: str, cpu: CpuReader | None = None) -> None:
        self._prefix, self._label = prefix, label
        self._cpu = cpu or CpuTimes(options)
        self._splits: dict[str, HostSplit] = {}

    def update(self, counters: Mapping[str, float | None]) -> Iterator[Measurement]:
        """Split the energy since the last call, and yield the totals.

        Parameters
        ----------
        counters
            Joules by the counter's name, read just now; ``None`` where one could not be read.
        """
        if not self._splits and all(joules is None for joules in counters.values()):
            return
        cpu = self._cpu.read()
        for name, joules in counters.items():
            if name not in self._splits and joules is None:
                continue
            split = self._splits.setdefault(name, HostSplit())
            split.update(joules, cpu)
            split.forget(self._cpu.keeps)
        yield from self._runs()
        for name, split in self._splits.items():
            yield from self._totals(name, split)

    def _runs(self) -> Iterator[Measurement]:
        # Also for a run without CPU time yet: its energy then starts at 0.
        for run_id, started_at in sorted(self._cpu.live.items()):
            yield self._name("run_start_time_seconds"), {"run_id": run_id}, started_at
        shared = {share.run_id for split in self._splits.values() for share in split.runs}
        for run_id in sorted(shared & self._cpu.ended.keys()):
            end = self._cpu.ended[run_id]
            yield self._name("run_start_time_seconds"), {"run_id": run_id}, end.started_at
            yield self._name("run_end_time_seconds"), {"run_id": run_id}, end.ended_at

    def _totals(self, name: str, split: HostSplit) -> Iterator[Measurement]:
        label = {self._label: name}
        yield self._name("idle_energy_joules_total"), label, split.idle
        yield self._name("other_energy_joules_total"), label, split.other
        for share, joules in split.runs.items():
            if share.run_id in self._cpu.live or share.run_id in self._cpu.ended:
                labels = {**label, "run_id": share.run_id, "method": share.method}
                yield self._name("attributed_energy_joules_total"), labels, joules

    def _name(self, name: str) -> str:
        return f"{self._prefix}_{name}"
