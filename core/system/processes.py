"""Processes of runs: detection and termination.

A process of a run has ``BENCH_RUN_ID`` in its initial environment. Its descendants belong to the run too, even if their
environment is unreadable or cleared. The run's supervisor is not one of its processes. It has ``BENCH_SUPERVISOR``
instead, and as a child subreaper it becomes the parent of the run's orphans. Services of the stack have
``BENCH_SERVICE``: they and their descendants belong to no run, whatever their parents.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

__all__ = [
    "OWN_VARIABLES",
    "SERVICE_VARIABLE",
    "ProcessStat",
    "RunProcesses",
    "RunTree",
    "boot_id",
    "end_run",
    "identity",
    "interrupt_run",
    "is_alive",
    "left_over",
    "read_environment",
    "read_stat",
    "service_environment",
    "signal_run",
    "world_id",
]

RUN_VARIABLE = b"BENCH_RUN_ID"
SUPERVISOR_VARIABLE = b"BENCH_SUPERVISOR"
SERVICE_VARIABLE = "BENCH_SERVICE"

# A process with one of these is of a run or of hypergauge.
OWN_VARIABLES = (RUN_VARIABLE, SUPERVISOR_VARIABLE, os.fsencode(SERVICE_VARIABLE))
_RUN_ID = re.compile(rb"[0-9a-f]{32}")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Between fork and exec a process still shows its parent's environment: it is read again after its first second.
SETTLED_SECONDS = 1.0
# A big host has thousands of kernel threads, and a pid is rarely reused within a second. Processes outside runs are
# therefore read again only at every tenth scan.
_BYSTANDER_SCANS = 10
# A process that survives SIGKILL for this long hangs in the kernel; the caller must not hang too.
_UNKILLABLE_SECONDS = 10.0
_POLL_SECONDS = 0.02


class ProcessStat(NamedTuple):
    """Reading of ``/proc/PID/stat``, see proc(5).

    `name` is the program's, with 15 characters at most. `created` is in seconds since the host's boot, which changes of
    the clock do not affect. `own_seconds` and `reaped_seconds` are user and system time of the process, and of the
    children that it waited for with theirs.
    """

    pid: int
    parent: int
    created: float
    zombie: bool
    own_seconds: float
    reaped_seconds: float
    threads: int
    resident_bytes: int
    name: str = ""


def read_stat(pid: int, proc: str = "/proc") -> ProcessStat | None:
    """Read ``/proc/PID/stat``; return ``None`` if there is no such process. `proc` replaces ``/proc``."""
    try:
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - the cheapest way, at every scan
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    closing = text.rindex(b")")  # the name in parentheses may hold spaces and parentheses
    fields = text[closing + 2 :].split()
    return ProcessStat(
        pid=pid,
        parent=int(fields[1]),
        created=int(fields[19]) / _TICKS,
        zombie=fields[0] in b"ZX",
        own_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        reaped_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
        threads=int(fields[17]),
        resident_bytes=int(fields[21]) * _PAGE,
        name=text[text.index(b"(") + 1 : closing].decode(errors="replace"),
    )


def read_environment(pid: int, names: Collection[bytes], proc: str = "/proc") -> dict[bytes, bytes] | None:
    """Return the variables among `names` in the initial environment of `pid`.

    Between fork and exec these are its parent's; a zombie has none. `proc` replaces ``/proc``.

    Returns
    -------
    dict[bytes, bytes] | None
        ``None`` if there is no such process, or this user cannot read its environment.
    """
    try:
        with open(f"{proc}/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            environment = file.readall()
    except OSError:
        return None
    if not any(name in environment for name in names):
        return {}
    entries = (entry.partition(b"=") for entry in environment.split(b"\0"))
    return {name: value for name, _, value in entries if name in names}


def service_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service, which belongs to no run, even if a run started it."""
    marks = {os.fsdecode(name) for name in OWN_VARIABLES}
    return {name: value for name, value in environment.items() if name not in marks} | {SERVICE_VARIABLE: "1"}


def identity(pid: int) -> float | None:
    """Return a number that distinguishes `pid` from a later process with this pid, ``None`` without such a process."""
    stat = read_stat(pid)
    return None if stat is None else stat.created


def boot_id(root: Path = Path("/")) -> str:
    """Return the id of this boot of the host; empty if the kernel has none."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def world_id() -> str:
    """Return an id of this boot and this pid namespace, within which a pid and its start time are unique."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{boot_id()} {namespace}"


def is_alive(pid: int, created: float) -> bool:
    """Return whether the process `pid` of identity `created` still runs; a zombie does not."""
    stat = read_stat(pid)
    return stat is not None and stat.created == created and not stat.zombie


@dataclass(slots=True)
class RunTree:
    """Processes of one run.

    Attributes
    ----------
    supervisor
        Process that supervises the run without being a member of it.
    members
        Processes of the run, parents before children, including zombies until their parent waits for them.
    by_tree
        Number of processes identified only by their ancestors.
    """

    supervisor: ProcessStat | None = None
    members: list[ProcessStat] = field(default_factory=list)
    by_tree: int = 0


@dataclass(slots=True)
class _Known:
    stat: ProcessStat
    run_id: str | None = None
    supervises: str | None = None
    serves: bool = False
    by_tree: bool = False
    settled: bool = False
    bystander: bool = False

    @property
    def run(self) -> str | None:
        return self.run_id or self.supervises

    def read_environment(self) -> None:
        """Read the variables; keep those of an earlier reading if there are none now."""
        variables = read_environment(self.stat.pid, OWN_VARIABLES) or {}
        if self.serves or os.fsencode(SERVICE_VARIABLE) in variables:
            self.serves, self.run_id, self.supervises, self.by_tree = True, None, None, False
        elif run_id := _run_id(variables, RUN_VARIABLE):
            self.run_id, self.supervises, self.by_tree = run_id, None, False
        elif supervised := _run_id(variables, SUPERVISOR_VARIABLE):
            self.supervises = supervised


class RunProcesses:
    """Runs with processes on this host.

    A scan reads the environment of a new process, and not again once the process is a second old. A descendant of a
    run's process stays with the run, even if its parent changes.

    Parameters
    ----------
    services
        Whether a scan follows the processes of the stack's services, too.

    Attributes
    ----------
    services
        Processes of services at the last scan.
    """

    def __init__(self, *, services: bool = False) -> None:
        self._known: dict[int, _Known] = {}
        self._scans = 0
        self._with_services = services
        self.services = RunTree()

    def scan(self) -> dict[str, RunTree]:
        """Return the processes of each run, by the run's id (32 hex digits)."""
        self._scans += 1
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        known: dict[int, _Known] = {}
        for pid in psutil.pids():
            if (process := self._look_at(pid, uptime)) is not None:
                known[pid] = process
        self._known = known
        trees = self._trees(self._attribute())
        serving = [process for process in known.values() if process.serves and process.run is None]
        self.services = RunTree(members=sorted((process.stat for process in serving), key=lambda stat: stat.created))
        return trees

    def _look_at(self, pid: int, uptime: float) -> _Known | None:
        known = self._known.get(pid)
        if known is not None and known.bystander and (pid + self._scans) % _BYSTANDER_SCANS:
            return known
        if (stat := read_stat(pid)) is None:
            return None
        if known is None or known.stat.created != stat.created:
            known = _Known(stat)
        known.stat = stat
        if known.bystander or not known.settled:
            known.bystander = False
            known.read_environment()
            known.settled = uptime - stat.created > SETTLED_SECONDS
        return known

    def _attribute(self) -> list[tuple[int, _Known]]:
        """Assign descendants to their ancestors' runs; return the processes and supervisors of runs, with their depth."""
        concerned = []
        for process in self._known.values():
            if process.bystander:
                continue
            ancestors = self._ancestors(process)
            if process.run is None and not process.serves:
                nearest = next((ancestor for ancestor in ancestors if ancestor.run or ancestor.serves), None)
                if nearest is not None:
                    process.run_id, process.serves = nearest.run, nearest.serves
                process.by_tree = process.run_id is not None
            if process.run is not None:
                concerned.append((len(ancestors), process))
            process.bystander = process.settled and process.run is None and not (self._with_services and process.serves)
        return concerned

    def _ancestors(self, process: _Known) -> list[_Known]:
        ancestors: list[_Known] = []
        while (parent := self._known.get(process.stat.parent)) is not None:
            if parent.bystander or parent.stat.created > process.stat.created:
                break
            ancestors.append(parent)
            process = parent
        return ancestors

    def _trees(self, concerned: Iterable[tuple[int, _Known]]) -> dict[str, RunTree]:
        trees: dict[str, RunTree] = {}
        # A process is never older than its parent; the depth orders those of the same clock tick.
        for _, process in sorted(concerned, key=lambda entry: (entry[1].stat.created, entry[0])):
            if process.run_id is not None:
                tree = trees.setdefault(process.run_id, RunTree())
                tree.members.append(process.stat)
                tree.by_tree += process.by_tree and not process.stat.zombie
            elif process.supervises is not None:
                tree = trees.setdefault(process.supervises, RunTree())
                # A supervisor's own helpers also have its environment, but are younger.
                tree.supervisor = tree.supervisor or process.stat
        return trees


def end_run(run_id: str, grace: float = 5.0, spare: bytes | None = None) -> int:
    """End all processes of a run, also those in other sessions or with another parent.

    All get SIGTERM, and SIGKILL after `grace` seconds, including those that are forked in between. The run's
    supervisor, the caller, process 1 and processes started with the variable `spare` are exempt.

    Returns
    -------
    int
        Number of ended processes.
    """
    processes = RunProcesses()
    kill_at = time.monotonic() + grace
    give_up_at = kill_at + _UNKILLABLE_SECONDS
    signaled: set[tuple[int, float]] = set()
    while left := _to_end(processes, run_id, spare):
        kill = time.monotonic() >= kill_at
        if time.monotonic() >= give_up_at:
            break
        for process in left:
            identified = (process.pid, process.created)
            if kill or identified not in signaled:
                _send(process, signal.SIGKILL if kill else signal.SIGTERM)
                signaled.add(identified)
        time.sleep(_POLL_SECONDS)
    return len(signaled - {(process.pid, process.created) for process in left})


def left_over(run_id: str, seconds: float, spare: bytes) -> list[ProcessStat]:
    """Return the processes of a run that live for `seconds` more; none as soon as all have ended.

    Processes started with the variable `spare` do not count.
    """
    processes, until = RunProcesses(), time.monotonic() + seconds
    while (living := _to_end(processes, run_id, spare)) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return living


def signal_run(run_id: str, number: signal.Signals) -> None:
    """Send a signal to all processes of a run."""
    for process in _to_end(RunProcesses(), run_id, None):
        _send(process, number)


def interrupt_run(run_id: str, spare: bytes) -> None:
    """Send SIGINT to the process group of a run's command, as a terminal does.

    Processes started with the variable `spare` do not count.
    """
    living = _to_end(RunProcesses(), run_id, spare)
    for process in sorted(living, key=lambda process: process.created)[:1]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(os.getpgid(process.pid), signal.SIGINT)


def _to_end(processes: RunProcesses, run_id: str, spare: bytes | None) -> list[ProcessStat]:
    tree = processes.scan().get(run_id, RunTree())
    living = [process for process in tree.members if not process.zombie and process.pid not in (1, os.getpid())]
    return living if spare is None else [process for process in living if not read_environment(process.pid, (spare,))]


def _send(process: ProcessStat, number: signal.Signals) -> None:
    if is_alive(process.pid, process.created):
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def _run_id(variables: Mapping[bytes, bytes], name: bytes) -> str | None:
    """Return the id in a variable, ``None`` unless it is that of a run."""
    value = variables.get(name, b"")
    return value.decode("ascii") if _RUN_ID.fullmatch(value) else None
