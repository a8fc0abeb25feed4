"""Spans of a run, from the client's file to the database."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypergauge.client.spans import SPAN_KINDS
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.limits import is_time, limited_value, storable
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.server.database import Database

__all__ = ["SpanWatch", "read_spans"]

# Interval, and largest part of the file read each time in bytes: some 700 spans per second.
_INTERVAL_SECONDS = 2.0
_MOST_BYTES = 1 << 18
# Longest wait for a write in progress at the end.
_TIMEOUT_SECONDS = 2.0
# Wait for data and amounts of work, fields of steps.
_AMOUNTS = ("data_wait", "samples", "tokens", "flops")

# The database's index takes no longer ids, and a name is for people.
_LONGEST_ID, _LONGEST_NAME = 200, 2000


class SpanWatch:
    """Background copy of a run's spans to the database, during the run. The delivery at the end stores all spans.

    Of each interval the copy stores the newest `_MOST_BYTES` at most, so that many spans do not slow the run.
    """

    def __init__(self, database: Database, folder: RunFolder) -> None:
        self._database, self._folder = database, folder
        self._looks = Periodic(f"spans of run {folder.run_id[:8]}", self._store, _INTERVAL_SECONDS)
        self._read = 0

    def start(self) -> None:
        """Start the background copy."""
        self._looks.start()

    def end(self) -> None:
        """Stop the copy; wait for a write in progress, which would conflict with the delivery."""
        self._looks.end(_TIMEOUT_SECONDS)

    def _store(self) -> None:
        path = self._folder.spans
        size = path.stat().st_size if path.is_file() else 0
        if size == self._read:
            return
        begin = max(self._read, size - _MOST_BYTES)
        with path.open("rb") as file:
            file.seek(begin)
            lines = file.read(size - begin)
        # Whole lines only: the client may still be writing the last one.
        whole = lines[: lines.rfind(b"\n") + 1]
        with self._database.session() as connection:
            store_spans(connection, self._folder.run_id, _spans(whole.splitlines()))
        self._read = begin + len(whole)


def read_spans(path: Path) -> Iterator[SpanRecord]:
    """Yield the spans of the client's file; skip lines that a crash has truncated."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        yield from _spans(file)


def _spans(lines: Iterable[bytes]) -> Iterator[SpanRecord]:
    for line in lines:
        if (span := _span(line)) is not None:
            yield span


def _span(line: bytes) -> SpanRecord | None:
    """Parse a line; return ``None`` for an invalid span, because any process may write to that file."""
    try:
        raw = json.loads(line.decode(errors="replace"), strict=False)
        step = raw["step"]
        span = SpanRecord(
            span_id=_text(raw["id"], _LONGEST_ID),
            parent_id=None if raw["parent"] is None else _text(raw["parent"], _LONGEST_ID),
            name=_text(raw["name"], _LONGEST_NAME),
            kind=raw["kind"] if raw["kind"] in SPAN_KINDS else "span",
            step=step if isinstance(step, int) and abs(step) < 2**63 else None,
            started_at=float(raw["start"]),
            ended_at=None if raw["end"] is None else float(raw["end"]),
            pid=pid if abs(pid := int(raw["pid"])) < 2**31 else None,
            thread=_text(raw["thread"], _LONGEST_NAME),
            **{name: _amount(raw.get(name)) for name in _AMOUNTS},
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return span if is_time(span.started_at) and is_time(span.ended_at or 0.0) else None


def _text(value: object, longest: int) -> str:
    return storable(str(value)[:longest])


def _amount(value: object) -> float | None:
    """Return an amount of work, ``None`` for an invalid one."""
    try:
        amount = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    stored = limited_value(amount)
    return stored if stored >= 0 else None
