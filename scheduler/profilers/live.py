"""Profile of a live run, from outside and without a restart."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from hypergauge.core.errors import BadRequest, ServiceFailed
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.files.run_folder import RunFolder, write_atomically
from hypergauge.core.system.processes import ProcessStat, RunProcesses
from hypergauge.scheduler.profilers.delivery import store_report
from hypergauge.scheduler.profilers.py_spy import LIVE_REPORT, PySpy
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.sql.runs.profiles import next_number
from hypergauge.sql.server.database import Connection

__all__ = ["profile_live"]

# Time to attach and to write, beyond the profile itself.
_MARGIN_SECONDS = 60.0
_ALLOW = "sudo sysctl kernel.yama.ptrace_scope=0"


def profile_live(connection: Connection, folder: RunFolder, seconds: float, rate: int) -> int:
    """Sample the Python functions of a live run, and store the profile; return its number.

    Parameters
    ----------
    rate
        Samples per second; each pauses the process for a moment.

    Raises
    ------
    BadRequest
        The run does not run, is being profiled already, or has no Python process.
    ServiceFailed
        py-spy may not read the run's processes, or recorded nothing.
    """
    profiler = PySpy()
    if problem := profiler.problem(""):
        raise BadRequest(problem)
    roots = list(_roots(folder.run_id))
    if not roots:
        raise BadRequest(f"run {folder.run_id[:8]} has no process on this host: only a live run can be profiled")
    with HostLock(f"profile/{folder.run_id}") as lock:
        if not lock.take():
            raise BadRequest(f"run {folder.run_id[:8]} is being profiled already")
        number = next_number(connection, folder.run_id, profiler.name)
        report = folder.path / LIVE_REPORT.format(number)
        started_at = time.time()
        write_atomically(report, _recorded(profiler, [root.pid for root in roots], seconds, rate))
        read = partial(read_folded, report, rate)
        problems = store_report(connection, folder, profiler.name, number, read, (started_at, time.time()))
    if problems:
        raise ServiceFailed(f"py-spy: its report {problems[0]}")
    return number


def _roots(run_id: str) -> Iterator[ProcessStat]:
    """Yield the processes of a run whose parents are not of it; py-spy finds their descendants."""
    tree = RunProcesses().scan().get(run_id)
    members = [] if tree is None else [one for one in tree.members if not one.zombie]
    pids = {one.pid for one in members}
    yield from (one for one in members if one.parent not in pids)


def _recorded(profiler: PySpy, pids: list[int], seconds: float, rate: int) -> str:
    """Return the stacks of processes and their descendants."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        parts = [Path(name) / str(pid) for pid in pids]
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [*profiler.recording(part, rate), "--duration", str(max(1, round(seconds))), "--pid", str(pid)],
                    env={key: value for key, value in os.environ.items() if key != "RUST_BACKTRACE"},
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )
            )
            for pid, part in zip(pids, parts, strict=True)
        ]  # fmt: skip
        errors = []
        try:
            errors = [process.communicate(timeout=seconds + _MARGIN_SECONDS)[1] for process in started]
        finally:
            for process in started:
                process.kill()
        found = [part.read_text(encoding="utf-8", errors="replace") for part in parts if part.exists()]
    if not found:
        raise _refusal(b"".join(errors).decode(errors="replace"))
    return "".join(found)


def _refusal(output: str) -> BadRequest | ServiceFailed:
    if "No python processes" in output:
        return BadRequest("the run has no Python process: py-spy profiles only these")
    if "Permission" in output:
        return ServiceFailed(f"py-spy may not read the run's processes: {_ALLOW}, or run bench profile as root")
    return ServiceFailed(f"py-spy failed: {next(iter(output.strip().splitlines()), 'it printed nothing')}")
