"""What there is to say of runs while they go on, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.job import Job

__all__ = ["Event", "Outcome"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that people want to see: ``started``, ``attached``, ``ended``, ``lost``, ``warning`` or ``note``."""

    kind: str
    label: str
    run_id: str = ""
    name: str = ""
    status: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run of a job ended."""

    job: Job
    run_id: str
    status: str
