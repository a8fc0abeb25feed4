"""Runs of a training with each choice of exporters in turn, in random order."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import psutil

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, ServiceFailed
from hypergauge.core.services import Stack
from hypergauge.insight.calibration import BASELINE, PILOT, Cost, Repetition, blocks_needed, costs
from hypergauge.insight.sharing.progress import progress_of
from hypergauge.scheduler.events import Event
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.exporters import live_choices, running_in_words
from hypergauge.scheduler.plan.plan import PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.queries.report import qualities
from hypergauge.sql.runs import experiments
from hypergauge.sql.runs.calibrations import Calibration, store_calibrations
from hypergauge.sql.runs.selection import select_run
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.session import Session

__all__ = ["Limits", "calibrate"]

_NAME = "bench calibrate"
# A command that does nothing may end within the resolution of its times.
_SHORTEST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Limits:
    """End of a calibration.

    Attributes
    ----------
    seconds
        No run begins that would end later, once each choice has two repetitions.
    within
        Largest half width of an interval, as a relative change of speed. The first blocks determine the number of blocks for it.
    """

    seconds: float
    within: float


def calibrate(
    executor: LocalExecutor, jobs: Mapping[str, Job], limits: Limits, *, seed: int, report: Callable[[str], None]
) -> tuple[str, list[Cost]]:
    """Run a training with each choice of exporters, as often as small intervals need, or until time is up; store the costs.

    Each block has all choices once, in random order, so that a drift of the host's speed costs all of them alike. A first run
    warms caches up and does not count.

    Parameters
    ----------
    jobs
        Job of the training by the text of the choice; one is `BASELINE`.
    report
        Called with the state after each block.

    Returns
    -------
    workload
        Selector of the runs; each choice is a position of this workload.
    costs
        Cost of each choice.

    Raises
    ------
    BadRequest
        Other runs of this host need exporters.
    ServiceFailed
        A run has failed, or other runs have needed exporters meanwhile.
    """
    with Session(
        executor.database, notify=lambda message: executor.report(Event("warning", "", message=message))
    ) as session:
        if others := session(live_choices):
            raise BadRequest(
                f"{running_in_words(others)} on this host: what measures them would measure the calibration too; wait for their end"
            )
        experiment, workload = session(experiments.next_command_workload)
        session.lock(partial(experiments.lock_command, workload=workload))
        executor.check_host(session, f"{experiment}/{workload}", jobs.values())
        calibrating = _Calibrating(executor, session, experiment, workload, limits, report)
        return f"{experiment}/{workload}", calibrating.run(jobs, Random(seed))


@dataclass
class _Calibrating:
    """Calibration in progress."""

    executor: LocalExecutor
    session: Session
    experiment: int
    workload: int
    limits: Limits
    report: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    _used: float = 0.0
    _memory: float = 0.0

    def __post_init__(self) -> None:
        self._show = self.executor.report
        self.executor = replace(self.executor, report=self._observe)

    def run(self, jobs: Mapping[str, Job], random: Random) -> list[Cost]:
        measured: dict[str, list[Repetition]] = {listeners: [] for listeners in jobs}
        positions = {listeners: number for number, listeners in enumerate(jobs, 1)}
        try:
            self._repetition(replace(jobs[BASELINE], name="warm-up", position=len(jobs) + 1))
            for block in self._blocks(measured):
                for listeners in random.sample(list(jobs), len(jobs)):
                    if not self._has_time(measured):
                        break
                    job = replace(jobs[listeners], position=positions[listeners], attempt=block)
                    measured[listeners].append(self._repetition(job))
        except KeyboardInterrupt:
            self.report(f"stopped after {sum(map(len, measured.values()))} runs that count: nothing is stored")
            raise
        found = costs(measured)
        shown = jobs[BASELINE].shown_command
        self.session(store_calibrations, [_stored(shown, one) for one in found if one.slowdown is not None])
        return found

    def _blocks(self, measured: Mapping[str, Sequence[Repetition]]) -> Iterator[int]:
        block = 0
        while self._has_time(measured):
            if block:
                found = costs(measured)
                needed = blocks_needed(measured, self.limits.within) if block >= PILOT else None
                self.report(_state(block, needed, found))
                if needed is not None and block >= needed:
                    return
            block += 1
            yield block

    def _has_time(self, measured: Mapping[str, Sequence[Repetition]]) -> bool:
        if min(map(len, measured.values())) < 2:
            return True
        longest = max(one.duration for some in measured.values() for one in some)
        return time.monotonic() - self.began + longest <= self.limits.seconds

    def _repetition(self, job: Job) -> Repetition:
        planned = PlannedWorkload(self.experiment, self.workload, ())
        [outcome] = self.executor.workload(planned, _NAME, Policy()).run([job])
        if outcome.status != "finished":
            raise ServiceFailed(f"the run {job.name} ended as {outcome.status}: bench logs {outcome.run_id[:8]}")
        self.executor.settle([outcome.run_id])
        found = self.session(_repetition, outcome.run_id, self._used, self._memory)
        if job.exporters is not None and (more := sorted(found.exporters.keys() - job.exporters.keys())):
            raise ServiceFailed(
                f"{' and '.join(more)} measured the run {job.name} too, since another run on this host needed "
                f"{'it' if len(more) == 1 else 'them'}: nothing is stored"
            )
        return found

    def _observe(self, event: Event) -> None:
        """Read the clocks of exporters and collector at the start and the end of the run itself."""
        if event.kind == "started":
            self._used = _cpu_seconds(self.executor.settings)
        elif event.kind == "ended":
            self._used = _cpu_seconds(self.executor.settings) - self._used
            self._memory = _memory_bytes(self.executor.settings)
        self._show(event)


def _repetition(connection: Connection, run_id: str, cpu_seconds: float, memory_bytes: float) -> Repetition:
    run = select_run(connection, run_id)
    [quality] = qualities(connection, [run_id])
    duration = max(run.duration or 0.0, _SHORTEST_SECONDS)
    progress = progress_of(connection, [run], "step").get(run_id)
    pace = progress.pace(0.0, duration) if progress is not None else 0.0
    return Repetition(
        duration, pace or None, quality.intervals, cpu_seconds / duration / (os.cpu_count() or 1), memory_bytes
    )


def _cpu_seconds(settings: Settings) -> float:
    """Return the CPU time that exporters and collector have used."""
    total = 0.0
    for process, with_children in _processes(settings):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[: 4 if with_children else 2])
    return total


def _memory_bytes(settings: Settings) -> float:
    """Return the resident memory of exporters and collector."""
    total = 0.0
    for process, _ in _processes(settings):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def _processes(settings: Settings) -> Iterator[tuple[psutil.Process, bool]]:
    """Yield the processes of exporters and collector, and whether the children that they waited for count.

    An exporter's children measure, such as ``dcgmi``. Those of the collector deliver the last run's summary to MLflow, which
    costs the next run of a calibration more than all measuring.
    """
    for name, service in Stack(settings).services().items():
        with contextlib.suppress(psutil.Error):
            if name == "collector":
                yield psutil.Process(service.pid), False
            elif name.startswith("exporter-"):
                process = psutil.Process(service.pid)
                yield process, True
                yield from ((child, True) for child in process.children(recursive=True))


def _state(block: int, needed: int | None, found: Sequence[Cost]) -> str:
    widest = max(one.half_width for one in found)
    interval = f"the widest interval is ± {widest:.1%}" if widest < float("inf") else "no intervals yet"
    planned = "" if needed in (None, sys.maxsize) else f" of {max(block, needed)}"
    return f"after {block}{planned} {'repetition' if block == 1 else 'repetitions'} of each choice: {interval}"


def _stored(command: str, one: Cost) -> Calibration:
    assert one.slowdown is not None
    assert one.slowdown.low is not None
    assert one.slowdown.high is not None
    return Calibration(
        platform.node(), command, one.listeners, one.exporters, one.repetitions, one.slowdown.value, one.slowdown.low,
        one.slowdown.high, one.cpu_share, one.memory_bytes,
    )  # fmt: skip
