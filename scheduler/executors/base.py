"""Executor protocol. An executor runs jobs on hosts of its choice; a workload is one job on one host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from hypergauge.core.errors import BenchError
from hypergauge.gpu import Gpu
from hypergauge.scheduler.experiment.experiment_file import Row
from hypergauge.sql.runs.jobs import Account

__all__ = ["Account", "Ending", "Executor", "ExecutorAway", "JobState", "Request", "Submission"]


class ExecutorAway(BenchError):
    """The executor does not answer; it may be asked again."""


@dataclass(frozen=True, slots=True)
class Request:
    """Resources that a workload needs.

    Attributes
    ----------
    gpus
        How many whole GPUs.
    profiles
        How many MIG instances, by profile.
    options
        What else its rows say, in the executor's words.
    """

    gpus: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """Submission of a job.

    Attributes
    ----------
    name
        What it is found by when its id there is not known.
    label
        For people: ``20/1 digits``.
    script
        For bash; it holds no secret but what stands in a row's parameters.
    environment
        Variables that it is to have, which may be secrets.
    directory
        Its working directory.
    """

    name: str
    label: str
    request: Request
    script: str
    environment: Mapping[str, str] = field(repr=False)
    directory: Path


@dataclass(frozen=True, slots=True)
class Ending:
    """Exit of a run that the executor ended: a status of ours, and the reason."""

    status: Literal["failed", "stopped", "timeout"]
    reason: str


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job.

    Attributes
    ----------
    reason
        Why it waits, or has ended, in words.
    host
        Where it is, or was.
    ended_at
        In Unix seconds, where it has ended.
    ending
        What its runs are that it took with it; ``None`` where it ended by itself.
    endings
        The same of single runs, by id, where that is known.
    """

    state: Literal["pending", "running", "ended"]
    reason: str | None = None
    host: str | None = None
    ended_at: float | None = None
    ending: Ending | None = None
    endings: Mapping[str, Ending | None] = field(default_factory=dict)


class Executor(Protocol):
    """Runs jobs on hosts of its choice. Where it does not answer, each method may raise `ExecutorAway`."""

    @property
    def name(self) -> str:
        """Display name."""

    @property
    def python(self) -> str:
        """The interpreter on the hosts that has this package."""

    @property
    def home(self) -> Path | None:
        """``BENCH_HOME`` on the hosts; ``None`` for that of this one."""

    def problems(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        """Yield row, column and message of what is wrong with the rows of a workload, or contradicts each other."""

    def request(self, rows: Sequence[Row]) -> Request:
        """Return what the rows of a workload need, which have no `problems`."""

    def check(self, request: Request, directory: Path) -> str | None:
        """Return why no host will ever give this, ``None`` where one may."""

    def submit(self, job: Submission) -> str:
        """Hand a job in; return its id there.

        Raises
        ------
        BadRequest
            It is refused.
        """

    def find(self, name: str) -> str | None:
        """Return the id of the job that was handed in under `name`, ``None`` where there is none."""

    def look(self, job_id: str) -> JobState | None:
        """Return how a job is, ``None`` where it is no longer known."""

    def cancel(self, job_id: str) -> None:
        """End a job; nothing where it has ended."""

    def accounts(self, job_id: str) -> Mapping[str, Account] | None:
        """Return what the runs of an ended job have used, by run id, as far as that is known by now.

        ``None`` where there is no accounting.
        """

    def step(self, run_id: str) -> Sequence[str]:
        """Return the words in front of the command of a run's supervisor, on the host of the job."""

    def why_lost(self, log: str) -> str | None:
        """Return why a run's step has ended, with its supervisor, by what it wrote into that one's log; ``None`` where it did not say."""

    def visible(self, gpus: Sequence[Gpu]) -> tuple[Sequence[Gpu], Sequence[str]]:
        """Return those of the host's GPUs that the job has, or has instances of, and the UUIDs of these MIG instances."""

    def restarted(self) -> str | None:
        """Return why this job, on whose host we are, was started once more; ``None`` where this is its first time."""
