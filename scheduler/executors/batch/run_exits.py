"""Exit of a run in a job: the supervisor's record, or the batch system's if that is missing."""

from __future__ import annotations

import signal

from hypergauge.scheduler.executors.base import Ending, JobState
from hypergauge.scheduler.supervision import VANISHED
from hypergauge.sql.runs.jobs import JobRun

__all__ = ["STOPPED_BEFORE", "asked_by", "ending_of", "was_taken"]

# Reason of a supervisor that was told to stop without a reason.
_STOPPED = "stopped on request"
# Reason of a run that was stopped while it was queued.
STOPPED_BEFORE = "it was stopped before it began"
_KILLED = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})


def asked_by(user: str) -> str:
    """Return the reason of a run that a user stopped from another host."""
    return f"stopped on request of {user}"


def was_taken(run: JobRun) -> bool:
    """Return whether a run may have been ended with its job: not by its command, and not by a user."""
    match run.status:
        case "pending" | "running":
            return True
        case "stopped":
            return run.reason == _STOPPED
        case "failed":
            return (run.reason or "").startswith(VANISHED) or run.exit_code in _KILLED
    return False


def ending_of(run: JobRun, state: JobState, failure: str | None) -> Ending | None:
    """Return the exit of a run of an ended job; ``None`` keeps what is recorded.

    Parameters
    ----------
    failure
        Reason why the job could not begin, if it reported one.
    """
    if run.status == "stopped" and run.started_at is None and run.stop_reason is None and failure is not None:
        return Ending("failed", failure)  # its host was about to begin it
    if not was_taken(run):
        return None
    ending = state.endings.get(run.run_id, state.ending)
    if run.status == "stopped":  # in order, by its supervisor, whose step has therefore ended by itself
        ending = ending or state.ending
    if run.status not in ("pending", "running"):
        return ending
    if run.stop_reason is not None:
        return Ending("stopped", STOPPED_BEFORE if run.status == "pending" else run.stop_reason)
    if ending is None and run.status == "pending":
        where = f" on {state.host}" if state.host else ""
        why = f" ({state.reason})" if state.reason else ""
        return Ending(
            "failed", failure or f"its job ended{where} before the run began{why}; the job's output says more"
        )
    return ending or Ending("failed", "its job ended, and the run with it")
