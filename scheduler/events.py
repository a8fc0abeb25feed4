"""Events of a schedule, and outcomes of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypergauge.scheduler.job import Job

__all__ = ["Event", "Outcome", "Report", "label"]


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a schedule, shown to the user: ``started``, ``attached``, ``ended``, ``lost``, ``warning`` or ``note``."""

    kind: str
    label: str
    run_id: str = ""
    name: str = ""
    status: str = ""
    message: str = ""
    seconds: float = 0.0


Report = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a job's run; its exit code is ``None`` if nobody saw it."""

    job: Job
    run_id: str
    status: str
    exit_code: int | None = None


def label(experiment: int, workload: int, job: Job) -> str:
    """Return the selector of a job's run: ``20/1/3``, ``20/1/3@2``."""
    name = f"{experiment}/{workload}/{job.position}"
    return name if job.attempt == 1 else f"{name}@{job.attempt}"
