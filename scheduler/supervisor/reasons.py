"""Reasons of runs that did not finish, as actionable messages."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.listing import listed
from hypergauge.core.system.processes import ProcessStat
from hypergauge.scheduler.supervisor.limits import Memory

__all__ = ["CommandExit", "exit_code", "failure", "last_lines", "outlived"]

# Longest part of an output line in characters. Messages of allocators continue with advice.
_LONGEST = 300
# Output lines to search. A launcher of several processes writes as many after the line with the error.
_LINES = 40
# Processes that are named.
_MOST_NAMED = 3
_GPU_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|HIP out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: (Out of memory|OOM)|OOM when allocating tensor"
)
_HOST_MEMORY = re.compile(
    r"^(\S*\.)?_?(Array)?MemoryError\b|Cannot allocate memory|can't allocate memory|std::bad_alloc|^fatal: out of memory"
)
_TRACEBACK = "Traceback (most recent call last):"
# Error that torchrun raises after the traceback of its child process.
_LAUNCHER = "ChildFailedError"
# Lines that MLflow writes at the end of a run, whatever its end.
_MLFLOW = re.compile(r"View (run|experiment) .*\bat: http")
# Signals with which the kernel, a library or a user ends programs. Other exit statuses above 128 name no signal.
_SIGNALS: frozenset[int] = frozenset(
    {signal.SIGINT, signal.SIGABRT, signal.SIGFPE, signal.SIGKILL, signal.SIGTERM}
    | {signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGXCPU, signal.SIGXFSZ}
)
_MEANINGS: dict[int, str] = {
    signal.SIGSEGV: "a fault in compiled code",
    signal.SIGILL: "an instruction that this CPU does not have",
    signal.SIGBUS: "often a full /dev/shm: see df /dev/shm",
    signal.SIGXCPU: "the limit of CPU time: see ulimit -t",
    signal.SIGXFSZ: "the limit of a file's size: see ulimit -f",
}


@dataclass(frozen=True, slots=True)
class CommandExit:
    """Facts about a command that ended by itself.

    Attributes
    ----------
    returncode
        Exit status, or the negative number of the signal that ended the command.
    lines
        End of its output; see `last_lines`.
    before, after
        Memory before the start and after the end of the command.
    peak_bytes
        Peak memory of its largest process; 0 if unknown.
    """

    returncode: int
    lines: Sequence[str] = ()
    before: Memory = field(default_factory=Memory)
    after: Memory = field(default_factory=Memory)
    peak_bytes: int = 0


def failure(command: CommandExit) -> str | None:
    """Return the reason why a command did not finish; ``None`` if it finished.

    An increase of the kernel's counter distinguishes out-of-memory kills from other kills. A shell reports a killed
    child as 128 plus the signal's number. If the kernel killed only a part of the run, the end of the reason states it.
    """
    if command.returncode == 0:
        return None
    kills = command.after.killed_since(command.before)
    if kills and exit_code(command.returncode) == 128 + signal.SIGKILL:
        return f"killed by the kernel for lack of memory{_peak(command)}"
    reason = _reason(command)
    return f"{reason}; meanwhile the kernel killed a process for lack of memory" if kills else reason


def outlived(processes: Sequence[ProcessStat]) -> str | None:
    """Return which processes outlived the command of a run, and what becomes of them; call it before they are ended."""
    if not processes:
        return None
    names = listed([f"{process.name} (PID {process.pid})" for process in processes], _MOST_NAMED)
    return f"{names} outlived the command, and {'was' if len(processes) == 1 else 'were'} ended"


def exit_code(returncode: int) -> int:
    """Return the exit status by the convention of shells: 128 plus the signal's number for a killed command."""
    return 128 - returncode if returncode < 0 else returncode


def last_lines(output: Path) -> list[str]:
    """Return the last lines of a file, without blank lines and unprintable characters; long lines are cut."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - 16384))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = (
        "".join(letter for letter in line if letter.isprintable()).strip()[:_LONGEST] for line in text.splitlines()
    )
    return [line for line in lines if line][-_LINES:]


def _reason(command: CommandExit) -> str:
    """Return the reason from the exit status and the output; the last line of a traceback is the error."""
    status = _status(command.returncode)
    lines = list(command.lines)
    # A program may survive an out-of-memory error, for example with a smaller batch, and fail with another error later.
    while _TRACEBACK in lines[1:] and not any(_LAUNCHER in line for line in lines):
        lines = lines[lines.index(_TRACEBACK, 1) :]
    for pattern, memory in ((_GPU_MEMORY, "out of GPU memory"), (_HOST_MEMORY, "out of memory")):
        line = next((line for line in reversed(lines) if pattern.search(line)), None)
        if line is not None:
            return f"{memory} ({status}): {line}"
    said = [line for line in command.lines if not _MLFLOW.search(line)]
    return f"{status}: {said[-1]}" if said else status


def _status(returncode: int) -> str:
    number = -returncode if returncode < 0 else returncode - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    meaning = _MEANINGS.get(number)
    if returncode < 0:
        return f"killed by {name} ({meaning})" if meaning else f"killed by {name}"
    if number not in _SIGNALS:
        return f"exit status {returncode}"
    return f"exit status {returncode} ({name}, {meaning})" if meaning else f"exit status {returncode} ({name})"


def _peak(command: CommandExit) -> str:
    if not command.peak_bytes:
        return ""
    peak = f"; the peak of its largest process was {_amount(command.peak_bytes)}"
    limit = command.after.limit_bytes
    return f"{peak} of the {command.after.origin}'s {_amount(limit)}" if limit else peak


def _amount(value: int) -> str:
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
