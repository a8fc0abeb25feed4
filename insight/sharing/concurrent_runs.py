"""Concurrent runs, and runs alone: the input of an interference analysis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["ConcurrentRuns", "Configuration", "LeftOut", "concurrent_runs", "configuration", "passes"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Configuration of a run without its neighbours. Simulated and profiled runs have configurations of their own."""

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
    """Simultaneous runs of a workload, or a run alone; all have finished."""

    runs: tuple[RunInfo, ...]

    @property
    def workload(self) -> str:
        """Selector of the workload: ``20/3``."""
        return f"{self.runs[0].experiment_id}/{self.runs[0].workload}"

    @property
    def seconds(self) -> float:
        """Seconds from the first start to the last end."""
        return max(end for _, end in map(times, self.runs)) - min(start for start, _ in map(times, self.runs))

    def together(self, run: RunInfo) -> tuple[float, float]:
        """Return start and end of the overlap of all runs, in seconds since the start of `run`; the end may come first."""
        begins = max(start for start, _ in map(times, self.runs))
        ends = min(end for _, end in map(times, self.runs))
        return begins - times(run)[0], ends - times(run)[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Excluded concurrent runs with the reasons."""

    runs: tuple[str, ...]
    reasons: tuple[Reason, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"runs": self.runs, "reasons": [reason.as_dict() for reason in self.reasons]}


def concurrent_runs(
    runs: Sequence[RunInfo], other_runs: Mapping[str, Sequence[str]]
) -> tuple[tuple[ConcurrentRuns, ...], tuple[LeftOut, ...]]:
    """Return the concurrent runs, and those that the analysis excludes.

    If one run did not finish, or shared its GPU (without one, its host) with a run of another workload, all of its
    concurrent runs are excluded: none of them ran beside exactly these neighbours.

    Parameters
    ----------
    runs
        All attempts of all rows of some workloads.
    other_runs
        Simultaneous runs of other workloads on the same GPU, or on the host of a run without one, by run id.
    """
    found, left_out = [], []
    for group in _groups([run for run in runs if run.started_at is not None]):
        concurrent = ConcurrentRuns(group)
        if reasons := tuple(_problems(concurrent, other_runs)):
            left_out.append(LeftOut(tuple(run.full_label for run in group), reasons))
        else:
            found.append(concurrent)
    return tuple(found), tuple(left_out)


def _groups(runs: Sequence[RunInfo]) -> Iterator[tuple[RunInfo, ...]]:
    """Yield the runs of each workload that overlap, directly or through others."""
    workloads: dict[tuple[int, int, str], list[RunInfo]] = {}
    for run in runs:
        workloads.setdefault((run.experiment_id, run.workload, run.host), []).append(run)
    for some in workloads.values():
        yield from passes(some)


def passes(runs: Iterable[RunInfo]) -> Iterator[tuple[RunInfo, ...]]:
    """Yield the overlapping runs of a workload in order of start; see `passes` in SQL."""
    group: list[RunInfo] = []
    for run in sorted(runs, key=lambda one: times(one)[0]):
        if group and times(run)[0] >= max(end for _, end in map(times, group)):
            yield tuple(sorted(group, key=lambda one: (one.position, one.attempt)))
            group = []
        group.append(run)
    yield tuple(sorted(group, key=lambda one: (one.position, one.attempt)))


def _problems(concurrent: ConcurrentRuns, other_runs: Mapping[str, Sequence[str]]) -> Sequence[Reason]:
    if reasons := [reason for run in concurrent.runs if (reason := _problem_of(run, other_runs))]:
        return reasons
    begins, ends = concurrent.together(concurrent.runs[0])
    return [Reason("never_overlapped")] if ends <= begins else []


def _problem_of(run: RunInfo, other_runs: Mapping[str, Sequence[str]]) -> Reason | None:
    label = {"run": run.full_label}
    if run.ended_at is None:
        return Reason("run_running", label)
    if run.status != "finished":
        return Reason("run_ended_early", {**label, "status": run.status, "seconds": run.duration or 0.0})
    if found := other_runs.get(run.run_id):
        return Reason("gpu_used_by_others" if run.devices else "host_used_by_others", {**label, "others": list(found)})
    return None


def times(run: RunInfo) -> tuple[float, float]:
    """Return start and end of a run in Unix seconds; infinity for a running one."""
    assert run.started_at is not None
    return run.started_at.timestamp(), run.ended_at.timestamp() if run.ended_at else float("inf")
