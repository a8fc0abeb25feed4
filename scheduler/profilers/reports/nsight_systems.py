"""SQLite export of Nsight Systems: kernels, copies, calls of CUDA and of the system, and NVTX ranges."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport, recorded, timed

__all__ = ["read_calls", "read_export"]

_NANOSECOND = 1e-9
# Statement by table and kind; a table is there only if the run had such events. Times are nanoseconds of the session.
_EVENTS = {
    ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"): """
        select n.value, printf('GPU %d stream %d', deviceId, streamId), start, end
        from CUPTI_ACTIVITY_KIND_KERNEL left join StringIds n on n.id = demangledName""",
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "memory"): """
        select copyKind, printf('GPU %d stream %d', deviceId, streamId), start, end from CUPTI_ACTIVITY_KIND_MEMCPY""",
    ("CUPTI_ACTIVITY_KIND_MEMSET", "memory"): """
        select 'fill', printf('GPU %d stream %d', deviceId, streamId), start, end from CUPTI_ACTIVITY_KIND_MEMSET""",
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda"): """
        select n.value, printf('thread %d', globalTid), start, end
        from CUPTI_ACTIVITY_KIND_RUNTIME left join StringIds n on n.id = nameId""",
    ("OSRT_API", "system"): """
        select n.value, printf('thread %d', globalTid), start, end from OSRT_API left join StringIds n on n.id = nameId""",
    ("NVTX_EVENTS", "range"): """
        select coalesce(text, n.value), printf('thread %d', globalTid), start, end
        from NVTX_EVENTS left join StringIds n on n.id = textId where end is not null and rangeId is null""",
}
# Directions of copies by CUPTI's number.
_COPIES = {
    1: "copy, host to device", 2: "copy, device to host", 3: "copy, host to array", 4: "copy, array to host",
    5: "copy, array to array", 6: "copy, array to device", 7: "copy, device to array", 8: "copy, device to device",
    9: "copy, host to host", 10: "copy, peer to peer", 11: "copy of managed memory, host to device",
    12: "copy of managed memory, device to host", 13: "copy of managed memory, device to device",
}  # fmt: skip


def read_export(path: Path, phases: Phases) -> Recording:
    """Return the stacks of an export.

    Raises
    ------
    UnreadableReport
        The file is no complete export.
    """
    calls, start = _read(path)
    return recorded(calls, phases, start)


def read_calls(path: Path) -> list[Call]:
    """Return the calls of an export with their Unix times; raise as `read_export` does. Old exports have no such times."""
    calls, start = _read(path)
    if start is None:
        return []
    return [replace(one, start=one.start + start) for one in timed(calls, start) if one is not None]


def _read(path: Path) -> tuple[list[Call | None], float | None]:
    """Return the calls of an export, ``None`` for a damaged one, and the Unix time at 0 of their clock."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.text_factory = _text
            tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            return list(_calls(connection, tables)), _session_start(connection, tables)
    # SQLite's own messages and names may be damaged too.
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise UnreadableReport(f"it is no complete export of Nsight Systems: {error}") from None


def _calls(connection: sqlite3.Connection, tables: set[str]) -> Iterator[Call | None]:
    for (table, kind), statement in _EVENTS.items():
        if table in tables:
            for name, track, start, end in connection.execute(statement):
                if not (_is_number(start) and _is_number(end)):
                    yield None
                    continue
                text = _text(name) if isinstance(name, bytes) else str(name or "unnamed")
                yield Call(kind, _COPIES.get(name, text), track, start * _NANOSECOND, (end - start) * _NANOSECOND)


def _text(raw: bytes) -> str:
    """Return a text; SQLite keeps names as programs gave them, which need not be UTF-8."""
    return raw.decode(errors="replace")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _session_start(connection: sqlite3.Connection, tables: set[str]) -> float | None:
    """Return the Unix time of the session's start, ``None`` where the export has none."""
    if "TARGET_INFO_SESSION_START_TIME" not in tables:
        return None
    found = connection.execute("select utcEpochNs from TARGET_INFO_SESSION_START_TIME").fetchone()
    return float(found[0]) * _NANOSECOND if found is not None and _is_number(found[0]) else None
