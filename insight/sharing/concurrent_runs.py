"""Concurrent runs, and runs alone: the data of interference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.runs.selection import RunInfo

__all__ = ["ConcurrentRuns", "Configuration", "LeftOut", "concurrent_runs", "configuration", "passes"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Configuration of a run, apart from its neighbours. A simulated or profiled run never has the same."""

    command: str
    params: str
    environment: str
    host: str
    devices: str
    simulated: bool
    profilers: str


def configuration(run: RunInfo) -> Configuration:
    """Return the configuration of a run."""
    params = json.dumps(run.params, sort_keys=True)
    return Configuration(run.command, params, run.environment, run.host, run.devices, run.simulated, run.profilers)


@dataclass(frozen=True, slots=True)
class ConcurrentRuns:
    """Runs of a workload that were there at the same time, or one that was there alone; all have finished."""

    runs: tuple[RunInfo, ...]

    @property
    def workload(self) -> str:
        """Selector of the workload: ``20/3``."""
        return f"{self.runs[0].experiment_id}/{self.runs[0].workload}"

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max(end for _, end in map(times, self.runs)) - min(start for start, _ in map(times, self.runs))

    def together(self, run: RunInfo) -> tuple[float, float]:
        """Return from when to when all were there, in seconds since the start of one of them; the end may be the sooner."""
        begins = max(start for start, _ in map(times, self.runs))
        ends = min(end for _, end in map(times, self.runs))
        return begins - times(run)[0], ends - times(run)[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Runs that were there together, or one alone, and cannot be judged."""

    runs: tuple[str, ...]
    reason: str


def concurrent_runs(
    runs: Sequence[RunInfo], strangers: Mapping[str, Sequence[str]]
) -> tuple[tuple[ConcurrentRuns, ...], tuple[LeftOut, ...]]:
    """Return who sat together, and what of it cannot be judged.

    A sitting in which one run did not finish, or on whose GPU somebody else was, is left out as a whole: nobody in it ran
    beside just these others.

    Parameters
    ----------
    runs
        All attempts of all rows of some workloads.
    strangers
        By run id, runs of other workloads that were on its GPU meanwhile.
    """
    sittings, left_out = [], []
    for group in _groups([run for run in runs if run.started_at is not None]):
        sitting = ConcurrentRuns(group)
        if reason := _problem(sitting, strangers):
            left_out.append(LeftOut(tuple(run.full_label for run in group), reason))
        else:
            sittings.append(sitting)
    return tuple(sittings), tuple(left_out)


def _groups(runs: Sequence[RunInfo]) -> Iterator[tuple[RunInfo, ...]]:
    """Yield the runs of each workload that were there at the same time, or one after the other without a gap."""
    workloads: dict[tuple[int, int, str], list[RunInfo]] = {}
    for run in runs:
        workloads.setdefault((run.experiment_id, run.workload, run.host), []).append(run)
    for some in workloads.values():
        yield from passes(some)


def passes(runs: Iterable[RunInfo]) -> Iterator[tuple[RunInfo, ...]]:
    """Yield those of a workload's runs that were there at the same time, the first first; see `passes` in SQL."""
    group: list[RunInfo] = []
    for run in sorted(runs, key=lambda one: times(one)[0]):
        if group and times(run)[0] >= max(end for _, end in map(times, group)):
            yield tuple(sorted(group, key=lambda one: (one.position, one.attempt)))
            group = []
        group.append(run)
    yield tuple(sorted(group, key=lambda one: (one.position, one.attempt)))


def _problem(sitting: ConcurrentRuns, strangers: Mapping[str, Sequence[str]]) -> str | None:
    reasons = [reason for run in sitting.runs if (reason := _problem_of(run, strangers))]
    if reasons:
        return "; ".join(reasons)
    begins, ends = sitting.together(sitting.runs[0])
    return "they were never all there at the same time" if ends <= begins else None


def _problem_of(run: RunInfo, strangers: Mapping[str, Sequence[str]]) -> str | None:
    if run.ended_at is None:
        return f"{run.full_label} goes on"
    if run.status != "finished":
        how = "ran into its time limit" if run.status == "timeout" else run.status
        return f"{run.full_label} {how} after {run.duration or 0.0:.1f} s"
    if found := strangers.get(run.run_id):
        return f"{', '.join(found[:4])} used the GPU of {run.full_label} as well"
    return None


def times(run: RunInfo) -> tuple[float, float]:
    """Return when a run began and ended, in Unix seconds; one that goes on ends never."""
    assert run.started_at is not None
    return run.started_at.timestamp(), run.ended_at.timestamp() if run.ended_at else float("inf")
