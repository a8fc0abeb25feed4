"""Parser of the output of Slurm's commands."""

from __future__ import annotations

import contextlib
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.scheduler.executors.base import Account, JobState, RunExit

__all__ = ["QUEUE_FORMAT", "STEP_FIELDS", "Step", "by_run", "job_state", "queue_line", "run_exit", "steps", "why_lost"]

OUT_OF_MEMORY = "Slurm: out of memory"
# Format of squeue, with the reason last because it is free text.
QUEUE_FORMAT = "%A|%T|%N|%e|%r"
# Fields of sacct.
STEP_FIELDS = "JobID,JobName,State,ElapsedRaw,TotalCPU,MaxRSS,ConsumedEnergyRaw"

_WAITS = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNS = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class Step:
    """Line of sacct: a job, its batch script, or a step with the name of its run."""

    step: str
    name: str
    state: str
    account: Account

    @property
    def is_job(self) -> bool:
        """Return whether it is the job itself."""
        return "." not in self.step

    @property
    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return _first(self.state) not in _WAITS | _RUNS


def queue_line(line: str) -> JobState:
    """Return the state of a job from its line in `QUEUE_FORMAT`."""
    _, state, nodes, end, reason = line.split("|", 4)
    return job_state(state, reason, nodes, float(end) if end.isdecimal() else None)


def job_state(state: str, reason: str, nodes: str, ended_at: float | None) -> JobState:
    """Translate a state of Slurm's."""
    host = nodes or None
    word = _first(state)
    if word in _WAITS:
        return JobState("pending", None if reason in ("", "None") else reason)
    if word in _RUNS:
        return JobState("running", host=host)
    end = run_exit(state, nodes)
    why = None if reason in ("", "None", "NonZeroExitCode") else f"Slurm: {reason}"
    return JobState("ended", end.reason if end else why, host, ended_at, end)


def run_exit(state: str, nodes: str = "") -> RunExit | None:
    """Return the exit of runs in a state of Slurm's, ``None`` if they ended by themselves."""
    match _first(state):
        case "TIMEOUT":
            return RunExit("timeout", "Slurm: the time limit was reached")
        case "DEADLINE":
            return RunExit("timeout", "Slurm: the deadline was reached")
        case "OUT_OF_MEMORY":
            return RunExit("failed", OUT_OF_MEMORY)
        case "NODE_FAIL" | "BOOT_FAIL":
            return RunExit("failed", f"Slurm: node {nodes} failed" if nodes else "Slurm: its node failed")
        case "PREEMPTED":
            return RunExit("stopped", "Slurm: preempted")
        case "CANCELLED" | "REVOKED":
            by = re.search(r" by (\S+)", state)
            return RunExit("stopped", f"Slurm: cancelled by user {_user(by[1])}" if by else "Slurm: cancelled")
    return None


def why_lost(log: str) -> str | None:
    """Return why a step has ended, from the output of srun and the node's daemon."""
    if re.search(r"exceeded memory limit|oom.?kill|Out Of Memory", log, re.IGNORECASE):
        return OUT_OF_MEMORY
    if found := re.search(r"error: Node failure on (\S+)", log):
        return f"Slurm: node {found[1]} failed"
    return None


def steps(text: str) -> list[Step]:
    """Parse the output of sacct with `STEP_FIELDS`."""
    found = []
    for line in text.splitlines():
        step, name, state, elapsed, cpu, memory, energy = line.split("|")
        account = Account(
            step,
            _first(state),
            float(elapsed) if elapsed.isdecimal() else None,
            _seconds(cpu),
            _bytes(memory),
            # Slurm shows 0 if no plugin measures energy.
            float(energy) if energy.isdecimal() and int(energy) else None,
        )
        found.append(Step(step, name, state, account))
    return found


def by_run(found: list[Step]) -> Mapping[str, Step]:
    """Return the steps of runs, by run id."""
    return {one.name: one for one in found if re.fullmatch(r"[0-9a-f]{32}", one.name) and not one.is_job}


def _first(state: str) -> str:
    return state.split(maxsplit=1)[0].rstrip("+") if state else ""


def _user(word: str) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(int(word)).pw_name if word.isdecimal() else word
    return word


def _seconds(text: str) -> float | None:
    """Parse ``[DD-[HH:]]MM:SS[.mmm]``."""
    if (found := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)) is None:
        return None
    days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _bytes(text: str) -> float | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    return float(found[1]) * _UNITS[found[2]] if found and float(found[1]) else None
