"""Executor with threads of this process as hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.executors.base import Account, ExecutorAway, JobState, Request, RunExit, Submission
from hypergauge.scheduler.executors.batch.job_runner import run_job
from hypergauge.scheduler.executors.batch.order import WorkloadOrder
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.experiment.experiment_file import Row
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.server.database import Database
from tests.support.waiting import HUNG_SECONDS

__all__ = ["Died", "InProcess"]


class Died(Exception):
    """Death of a scheduler."""


@dataclass
class InProcess:
    """Executor with threads as hosts.

    Attributes
    ----------
    held
        Event; jobs wait in the queue until it is set.
    refuses
        Reason to refuse every job.
    unheard
        Number of submissions whose answer is lost.
    away
        Number of calls without an answer.
    restarts
        Whether an ended job is started again.
    dies
        Whether monitoring a job raises the death of the scheduler.
    """

    database: Database
    settings: Settings
    held: threading.Event = field(default_factory=threading.Event)
    refuses: str | None = None
    unheard: int = 0
    away: int = 0
    dies: bool = False
    restarts: bool = False
    submitted: list[Submission] = field(default_factory=list)
    ended: dict[str, JobState] = field(default_factory=dict)
    taken: dict[str, RunExit] = field(default_factory=dict)
    name: str = "threads"
    python: str = "python3"
    home: Path | None = None

    def problems(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        return iter(())

    def request(self, rows: Sequence[Row]) -> Request:
        return Request()

    def check(self, request: Request, directory: Path) -> str | None:
        return self.refuses

    def submit(self, job: Submission) -> str:
        if self.refuses is not None:
            raise BadRequest(self.refuses)
        self.submitted.append(job)
        job_id = str(len(self.submitted))
        threading.Thread(target=self.start, args=(job_id,)).start()
        if self.unheard:
            self.unheard -= 1
            raise ExecutorAway("no answer")
        return job_id

    def start(self, job_id: str) -> None:
        """Run a job on its host."""
        assert self.held.wait(HUNG_SECONDS)
        if job_id in self.ended:
            return
        order = WorkloadOrder.decode(self.submitted[int(job_id) - 1].script.splitlines()[2])
        executor = LocalExecutor(self.database, self.settings, None, Inventory(), lambda _: None)
        try:
            run_job(order, self, executor, {}, Reactions())
            if self.restarts:
                self.restarts = False
                run_job(order, self, executor, {}, Reactions())
        except BenchError:
            pass
        finally:
            self._end(job_id)

    def find(self, name: str) -> str | None:
        found = [str(number) for number, job in enumerate(self.submitted, 1) if job.name == name]
        return found[0] if found else None

    def look(self, job_id: str) -> JobState | None:
        if self.dies:
            raise Died
        if self.away:
            self.away -= 1
            raise ExecutorAway("no answer")
        state = JobState("running", host="here") if self.held.is_set() else JobState("pending", "Resources")
        return self.ended.get(job_id, state)

    def cancel(self, job_id: str) -> None:
        self.end(job_id, RunExit("stopped", "threads: cancelled"))

    def end(self, job_id: str, run_exit: RunExit) -> None:
        """End a job with its processes, as from outside."""
        self.taken[job_id] = run_exit
        if not self.held.is_set():
            self._end(job_id)
        for folder in RunFolder.all(self.settings.runs_dir):
            ask_to_stop(folder)

    def _end(self, job_id: str) -> None:
        run_exit = self.taken.get(job_id)
        self.ended[job_id] = JobState("ended", run_exit.reason if run_exit else None, "here", time.time(), run_exit)

    def accounts(self, job_id: str) -> Mapping[str, Account] | None:
        order = WorkloadOrder.decode(self.submitted[int(job_id) - 1].script.splitlines()[2])
        return {run.run_id: Account(f"{job_id}.0", "DONE", 2.0, 1.0, 1024.0) for run in order.runs}

    def step(self, run_id: str) -> Sequence[str]:
        return ["env", f"STEP_OF={run_id}"]

    def why_lost(self, log: str) -> str | None:
        return None

    def visible(self, gpus: Sequence[Gpu]) -> tuple[Sequence[Gpu], Sequence[str]]:
        return gpus, []

    def restarted(self) -> str | None:
        return None
