"""Reductions of tensors of a run, from the client's file to the database."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from hypergauge.client.tensors import REDUCTIONS
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.limits import LATEST, storable
from hypergauge.sql.ingest.tensors import (
    TensorSet,
    TensorStep,
    WatchProblem,
    microseconds,
    store_problems,
    store_tensors,
    stored_steps,
)
from hypergauge.sql.server.database import Connection, Database

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["TensorLines", "TensorWatch", "deliver_tensors"]

# Interval, and largest part of the file stored each time in bytes, the last line aside: some 8 steps of 10,000 tensors.
_INTERVAL_SECONDS = 2.0
_MOST_BYTES = 4 << 20
# Longest wait for a write in progress at the end.
_TIMEOUT_SECONDS = 2.0
# Any process may write to the file. A longer line is skipped; this holds all reductions of 100,000 tensors.
_LONGEST_LINE = 8 << 20
_LONGEST_NAME, _LONGEST_SET = 1000, 200  # the database's index takes no longer sets
_MOST_SETS = 10_000
_MOST_PROBLEMS, _LONGEST_PROBLEM = 10, 500
# Keys of lines about what is missing, with whether the watch goes on.
_PROBLEMS = {"problem": False, "gap": True}
# Steps that are stored together, by the size of their lines and by number.
_BATCH_BYTES, _BATCH_STEPS = 4 << 20, 1000


@dataclass(frozen=True, slots=True)
class _Set:
    """Set by which the steps that follow are read."""

    stored_as: str
    digest: bytes
    tensors: int


class TensorLines:
    """Parser of the file's lines, which remembers the sets.

    Parameters
    ----------
    known
        Steps to leave out, see `stored_steps`.
    """

    def __init__(self, known: Set[tuple[str, int, int]] = frozenset()) -> None:
        self._known = known
        self._sets: dict[str, _Set] = {}
        self._versions: dict[str, int] = {}

    def parse(self, line: bytes) -> TensorSet | TensorStep | WatchProblem | None:
        """Parse a line; return ``None`` for one that is invalid, known or of an unknown set."""
        try:
            raw = json.loads(line.decode(errors="replace"), strict=False)
            for key, is_gap in _PROBLEMS.items():
                if key in raw:
                    text = storable(" ".join(str(raw[key]).split())).rstrip(".")
                    return WatchProblem(text[:_LONGEST_PROBLEM], is_gap)
            return self._set(raw) if "names" in raw else self._step(raw)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None

    def _set(self, raw: dict[str, Any]) -> TensorSet:
        name, collection = _text(raw["set"], _LONGEST_SET), _text(raw["collection"])
        if type(raw["names"]) is not list:
            raise TypeError
        names, sizes = [_text(one) for one in raw["names"]], _sizes(raw["sizes"], len(raw["names"]))
        digest = hashlib.sha256(json.dumps([collection, names]).encode()).digest()
        known = self._sets.get(name)
        if known is None or known.digest != digest:
            if not names or len(self._sets) >= _MOST_SETS:
                raise ValueError
            # Another process of the run may have had the same process id, and so the same name.
            version = self._versions[name] = self._versions.get(name, 0) + 1
            known = _Set(name if version == 1 else f"{name}~{version}", digest, len(names))
            self._sets[name] = known
        return TensorSet(known.stored_as, collection, names, sizes)

    def _step(self, raw: dict[str, Any]) -> TensorStep | None:
        known = self._sets[raw["set"]]
        step, time, pid = raw["step"], float(raw["time"]), raw["pid"]
        if not _is_integer(step, 2**63) or not (math.isfinite(time) and 0 <= time < LATEST):
            raise ValueError
        if (known.stored_as, step, microseconds(time)) in self._known:
            return None
        return TensorStep(
            known.stored_as,
            step,
            time,
            pid if _is_integer(pid, 2**31) else None,
            _sizes(raw["sizes"], known.tensors) if "sizes" in raw else None,
            {name: _values(raw[name], known.tensors) for name in REDUCTIONS if name in raw},
        )


class TensorWatch:
    """Background copy of a run's tensors to the database, during the run. The delivery at the end stores all of them.

    Of each interval the copy stores the newest `_MOST_BYTES`, so that many tensors do not slow the run.
    """

    def __init__(self, database: Database, folder: RunFolder) -> None:
        self._database, self._folder = database, folder
        self._looks = Periodic(f"tensors of run {folder.run_id[:8]}", self._store, _INTERVAL_SECONDS)
        self._lines, self._read = TensorLines(), 0

    def start(self) -> None:
        """Start the background copy."""
        self._looks.start()

    def end(self) -> None:
        """Stop the copy; wait for a write in progress, which would conflict with the delivery."""
        self._looks.end(_TIMEOUT_SECONDS)

    def _store(self) -> None:
        path = self._folder.tensors
        size = path.stat().st_size if path.is_file() else 0
        if size == self._read:
            return
        found = _Batch()
        read = self._read
        with path.open("rb") as file:
            file.seek(read)
            for read, line in _lines(file, until=size):
                # Sets are never left out: later steps need them.
                if (read > size - _MOST_BYTES or b'"names"' in line) and not self._looks.ending:
                    found.add(self._lines.parse(line), len(line))
        with self._database.session() as connection:
            found.store(connection, self._folder.run_id)
        self._read = read


def deliver_tensors(connection: Connection, folder: RunFolder) -> None:
    """Store all that the file has and the database has not."""
    if not folder.tensors.is_file():
        return
    lines, found = TensorLines(stored_steps(connection, folder.run_id)), _Batch()
    with folder.tensors.open("rb") as file:
        for _, line in _lines(file):
            found.add(lines.parse(line), len(line))
            if found.is_full:
                found.store(connection, folder.run_id)
                found = _Batch()
    found.store(connection, folder.run_id)


@dataclass(slots=True)
class _Batch:
    """Content of lines that is stored in one transaction."""

    sets: list[TensorSet] = field(default_factory=list)
    steps: list[TensorStep] = field(default_factory=list)
    problems: list[WatchProblem] = field(default_factory=list)
    bytes: int = 0

    def add(self, one: TensorSet | TensorStep | WatchProblem | None, size: int) -> None:
        if isinstance(one, TensorSet):
            self.sets.append(one)
        elif isinstance(one, TensorStep):
            self.steps.append(one)
        elif isinstance(one, WatchProblem) and len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(one)
        self.bytes += 0 if one is None else size

    @property
    def is_full(self) -> bool:
        return self.bytes >= _BATCH_BYTES or len(self.steps) >= _BATCH_STEPS

    def store(self, connection: Connection, run_id: str) -> None:
        if self.sets or self.steps:
            store_tensors(connection, run_id, self.sets, self.steps)
        if self.problems:
            store_problems(connection, run_id, self.problems)


def _lines(file: BinaryIO, until: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines that end before `until`, each with the position of its end. Parts of too long ones are empty."""
    at, is_rest = file.tell(), False
    while line := file.readline(_LONGEST_LINE):
        at += len(line)
        if until is not None and at > until:
            return
        if line.endswith(b"\n"):
            yield at, b"" if is_rest else line
            is_rest = False
        elif len(line) == _LONGEST_LINE:
            is_rest = True
            yield at, b""
        else:
            return  # the client may still be writing it, or was killed


def _text(value: object, longest: int = _LONGEST_NAME) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError
    return storable(value)


def _is_integer(value: object, limit: int) -> bool:
    return type(value) is int and abs(value) < limit


def _sizes(raw: Iterable[object], count: int) -> list[int]:
    sizes = [size for size in raw if type(size) is int and 0 <= size < 2**63]
    if len(sizes) != count:
        raise ValueError
    return sizes


def _values(raw: str, count: int) -> npt.NDArray[np.float32]:
    import numpy as np  # most runs are not watched, and each has a supervisor

    values = np.frombuffer(base64.b64decode(raw, validate=True), "<f4").astype(np.float32, copy=False)
    if len(values) != count:
        raise ValueError
    return values
