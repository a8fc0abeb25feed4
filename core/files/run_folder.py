"""Folder of a run on its host, ``BENCH_HOME/runs/RUN_ID``.

It outlives the scheduler and the database connection: a supervisor first writes its state and the run's end here. Every
file except the output, the spans and the tensors is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypergauge.core.files import private

__all__ = ["RunEnd", "RunFolder", "SupervisorState", "appearing", "sync_folder", "write_atomically"]

_Content = TypeVar("_Content", "SupervisorState", "RunEnd")
# Above bytes and seconds of any run; the database's times end with the year 294276.
_LARGEST = {"int": 2**60, "float": 1e11}
# No text for the database: a command need not be UTF-8.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_ENDS = frozenset({"finished", "failed", "stopped", "timeout"})


@dataclass(frozen=True, slots=True)
class SupervisorState:
    """Supervisor of a run: pids with their start times, since another process may reuse a pid.

    `root_pid` is the launched process, and `started_at` the run's start in Unix seconds; ``None`` before its release.
    """

    pid: int
    created: float
    root_pid: int | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """End of a run, with the resource usage of its process tree.

    `started_at` and `ended_at` are Unix seconds; `cpu_seconds`, `read_bytes` and `written_bytes` are the kernel's
    account of all processes of the run that were waited for; `max_rss_bytes` is that of the largest of them, 0 if
    unknown.
    """

    status: str
    started_at: float
    ended_at: float
    exit_code: int | None
    reason: str | None
    cpu_seconds: float
    read_bytes: int
    written_bytes: int
    max_rss_bytes: int


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Files of one run."""

    PERF: ClassVar[str] = "perf.csv"

    path: Path

    @classmethod
    def all(cls, runs_dir: Path) -> Iterator[RunFolder]:
        """Yield the folder of every run below `runs_dir`."""
        if runs_dir.is_dir():
            with os.scandir(runs_dir) as entries:
                yield from (cls(Path(entry.path)) for entry in entries if entry.is_dir())

    @classmethod
    def find(cls, home: Path, run_id: str) -> RunFolder | None:
        """Return the folder of a run of `home`, or of a job below it, if this host sees its files; ``None`` if not."""
        # The jobs second: there may be many.
        folders = itertools.chain([home / "runs" / run_id], (home / "jobs").glob(f"*/runs/{run_id}"))
        return next((cls(path) for path in folders if path.is_dir()), None)

    @property
    def run_id(self) -> str:
        """The run's id, 32 hex digits."""
        return self.path.name

    @property
    def output(self) -> Path:
        """Standard output and error, in the order of arrival."""
        return self.path / "output.log"

    @property
    def spans(self) -> Path:
        """File to which the client appends spans, ``BENCH_SPANS``: one JSON object per line."""
        return self.path / "spans.jsonl"

    @property
    def tensors(self) -> Path:
        """File to which the client appends reductions of tensors, ``BENCH_TENSORS``: one JSON object per line."""
        return self.path / "tensors.jsonl"

    @property
    def saved_tensors(self) -> Path:
        """Folder to which the client writes whole tensors, each as ``STEP-COLLECTION-NAME.npy``."""
        return self.path / "tensors"

    @property
    def perf(self) -> Path:
        """Counters of ``perf stat``: one line per event and second."""
        return self.path / self.PERF

    @property
    def command_end(self) -> Path:
        """Exit of a profiled run's command, while its profilers still work."""
        return self.path / "command.json"

    @property
    def profiler_log(self) -> Path:
        """Log of the profilers around a run."""
        return self.path / "profiler.log"

    @property
    def supervisor_log(self) -> Path:
        """Log of the supervisor."""
        return self.path / "supervisor.log"

    def create(self, spec: dict[str, Any]) -> None:
        """Make the folder, readable for its owner alone, with the specification of the run."""
        private.make_folder(self.path.parent)
        self.path.mkdir(mode=0o700)
        self._write("spec.json", spec)

    def spec(self) -> dict[str, Any]:
        """Return the specification of the run; empty if something has damaged it.

        Raises
        ------
        FileNotFoundError
            The run has no specification.
        """
        if (content := self._read("spec.json")) is None and not (self.path / "spec.json").exists():
            raise FileNotFoundError(self.path / "spec.json")
        return content or {}

    def write_state(self, state: SupervisorState) -> None:
        """Write the state of the supervisor."""
        self._write("supervisor.json", asdict(state))

    def state(self) -> SupervisorState | None:
        """Return the state of the supervisor, ``None`` before its start."""
        return _parsed(SupervisorState, self._read("supervisor.json"))

    def write_end(self, end: RunEnd) -> None:
        """Write the run's end."""
        self._write("end.json", asdict(end))

    def end(self) -> RunEnd | None:
        """Return the run's end, ``None`` while it runs."""
        end = _parsed(RunEnd, self._read("end.json"))
        if end is None or end.status not in _ENDS:
            return None
        return replace(end, reason=_text(end.reason)) if end.reason else end

    def ask_to_stop(self, reason: str) -> None:
        """Write the reason of a stop, for the supervisor to report."""
        self._write("stop.json", {"reason": reason})

    def stop_reason(self) -> str | None:
        """Return the reason of a stop, ``None`` if there is none."""
        content = self._read("stop.json")
        return None if content is None else _text(str(content.get("reason", "")))

    @property
    def suspended(self) -> Path:
        """Mark of a run that Ctrl-Z has stopped together with `bench run`."""
        return self.path / "suspended"

    def mark_delivered(self) -> None:
        """Record that output, spans and software metrics are delivered."""
        self._write("delivered.json", {})

    @property
    def delivered(self) -> bool:
        """Return whether output, spans and software metrics are delivered."""
        return (self.path / "delivered.json").exists()

    def _write(self, name: str, content: dict[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(content))

    def _read(self, name: str) -> dict[str, Any] | None:
        """Return the content of a file; ``None`` if there is no valid one, since a run may write to its folder too."""
        try:
            content = json.loads((self.path / name).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None


def _parsed(kind: type[_Content], content: dict[str, Any] | None) -> _Content | None:
    """Return a dataclass of numbers and texts; ``None`` if a field is missing or invalid."""
    try:
        parsed = None if content is None else kind(**content)
    except TypeError:
        return None
    is_valid = parsed is not None and all(
        _is_valid(getattr(parsed, field.name), str(field.type)) for field in fields(parsed)
    )
    return parsed if is_valid else None


def _text(value: str) -> str:
    return _NO_TEXT.sub("?", value)


def _is_valid(value: object, annotation: str) -> bool:
    kind, _, optional = annotation.partition(" | ")
    if kind == "str" or value is None:
        return isinstance(value, str) or (value is None and bool(optional))
    return isinstance(value, int if kind == "int" else int | float) and abs(value) < _LARGEST[kind]


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Provide a temporary file that becomes `path` at the end, and is removed after an error.

    Its name is unique: several threads, or hosts that share a folder, may write the same file. The last one's stays.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Write `content` so that readers find either the old file or the new one, even after a crash."""
    data = content.encode() if isinstance(content, str) else content
    with appearing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder to disk, if its file system supports it."""
    try:
        _sync(path)
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.EINVAL):  # as in PostgreSQL: a file system without this
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
