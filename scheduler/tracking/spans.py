"""Spans of a run, from the client's file to the database."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypergauge.client.track import SPAN_KINDS
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.server.database import Database

__all__ = ["SpanWatch", "read_spans"]

# How often a run's new spans are looked for, in seconds, and how many bytes of them are taken: some 700 a second.
_INTERVAL_SECONDS = 2.0
_MOST_BYTES = 1 << 18
# For spans that are under way to the database at the end.
_PATIENCE_SECONDS = 2.0


class SpanWatch:
    """Brings a run's spans to the database while it goes on, in the background; the delivery brings all of them.

    A run that writes more than `_MOST_BYTES` at a time has only its newest there before it has ended: what it says of
    itself must not cost more than it does.
    """

    def __init__(self, database: Database, folder: RunFolder) -> None:
        self._database, self._folder = database, folder
        self._looks = Periodic(f"spans of run {folder.run_id[:8]}", self._store, _INTERVAL_SECONDS)
        self._read = 0

    def start(self) -> None:
        """Look for new spans every few seconds from now on."""
        self._looks.start()

    def end(self) -> None:
        """Look no more; what is under way arrives first, for the delivery would get in its way."""
        self._looks.end(_PATIENCE_SECONDS)

    def _store(self) -> None:
        path = self._folder.spans
        size = path.stat().st_size if path.exists() else 0
        if size == self._read:
            return
        begin = max(self._read, size - _MOST_BYTES)
        with path.open("rb") as file:
            file.seek(begin)
            lines = file.read(size - begin)
        # Whole lines: what is behind the last end of one is still being written.
        whole = lines[: lines.rfind(b"\n") + 1]
        with self._database.session() as connection:
            store_spans(connection, self._folder.run_id, _spans(whole.splitlines()))
        self._read = begin + len(whole)


def read_spans(path: Path) -> Iterator[SpanRecord]:
    """Yield the spans of a file that the client has appended to; a line cut short by a crash is passed over."""
    if not path.exists():
        return
    with path.open("rb") as file:
        yield from _spans(file)


def _spans(lines: Iterable[bytes]) -> Iterator[SpanRecord]:
    for line in lines:
        if (span := _span(line)) is not None:
            yield span


def _span(line: bytes) -> SpanRecord | None:
    """Return the span of a line, ``None`` where it is none: anything may write to that file."""
    try:
        raw = json.loads(line)
        step = raw["step"]
        span = SpanRecord(
            span_id=_text(raw["id"]),
            parent_id=None if raw["parent"] is None else _text(raw["parent"]),
            name=_text(raw["name"]),
            kind=raw["kind"] if raw["kind"] in SPAN_KINDS else "span",
            step=step if isinstance(step, int) and abs(step) < 2**63 else None,
            started_at=float(raw["start"]),
            ended_at=None if raw["end"] is None else float(raw["end"]),
            pid=int(raw["pid"]),
            thread=_text(raw["thread"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
    return span if math.isfinite(span.started_at + (span.ended_at or 0.0)) else None


def _text(value: object) -> str:
    """Return what the database takes: neither zero bytes nor what of a file's name is no UTF-8."""
    return str(value).replace("\0", "").encode(errors="replace").decode()
