"""Exit of a run in a job: from the supervisor, or from the batch system if the supervisor recorded none."""

from __future__ import annotations

import signal

from hypergauge.scheduler.executors.base import JobState, RunExit
from hypergauge.scheduler.supervision import ON_REQUEST, VANISHED
from hypergauge.sql.runs.jobs import JobRun

__all__ = ["STOPPED_BEFORE", "asked_by", "exit_of", "was_taken"]

# Reason for the stop of a queued run.
STOPPED_BEFORE = "it was stopped before it began"
_KILLED = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})


def asked_by(user: str) -> str:
    """Return the reason for a stop that a user requested on another host."""
    return f"stopped on request of {user}"


def was_taken(run: JobRun) -> bool:
    """Return whether the batch system may have ended a run with its job: neither its command nor a user did."""
    match run.status:
        case "pending" | "running":
            return True
        case "stopped":
            return run.reason == ON_REQUEST
        case "failed":
            return (run.reason or "").startswith(VANISHED) or run.exit_code in _KILLED
    return False


def exit_of(run: JobRun, state: JobState, failure: str | None) -> RunExit | None:
    """Return the exit of a run of an ended job; ``None`` keeps the recorded exit.

    Parameters
    ----------
    failure
        Reported reason why the job could not begin, if any.
    """
    if run.status == "stopped" and run.started_at is None and run.stop_reason is None and failure is not None:
        return RunExit("failed", failure)
    if not was_taken(run):
        return None
    found = state.run_exits.get(run.run_id, state.run_exit)
    if run.status == "stopped":  # its supervisor stopped it, so its step has ended by itself
        found = found or state.run_exit
    if run.status not in ("pending", "running"):
        return found
    if run.stop_reason is not None:
        return RunExit("stopped", STOPPED_BEFORE if run.status == "pending" else run.stop_reason)
    if found is None and run.status == "pending":
        where = f" on {state.host}" if state.host else ""
        why = f" ({state.reason})" if state.reason else ""
        return RunExit(
            "failed", failure or f"its job ended{where} before the run began{why}; the job's output has more"
        )
    return found or RunExit("failed", "its job ended, and the run with it")
