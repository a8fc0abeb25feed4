"""The write path's statements: targets, series, tags, and batches of samples by binary COPY."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from psycopg.types.json import Jsonb

from sql.database import Connection

__all__ = [
    "OpenedSeries",
    "Retagged",
    "Segment",
    "claim_batches",
    "copy_samples",
    "forget_batches",
    "mark_unsummarised",
    "open_series",
    "register_target",
    "report_targets",
    "retag",
    "run_set_segments",
    "summarise_ended_runs",
    "tag_version",
]

_EPOCH_2000 = 946_684_800  # PostgreSQL counts from 2000-01-01
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)
_FIELDS = [
        ("fields", ">i2"),
        ("time_size", ">i4"), ("time", ">i8"),
        ("series_size", ">i4"), ("series_id", ">i4"),
        ("runset_size", ">i4"), ("runset_id", ">i4"),
        ("value_size", ">i4"), ("value", ">f8"),
        ("dt_size", ">i4"), ("dt", ">f4"),
]  # fmt: skip
_ROW = np.dtype(_FIELDS)
# A null has a size of -1 and no bytes, so rows with one need a layout of their own.
_NULL_ROW = np.dtype([field for field in _FIELDS if field[0] != "value"])
_SIZES = {"fields": 5, "time_size": 8, "series_size": 4, "runset_size": 4, "value_size": 8, "dt_size": 4}


@dataclass(frozen=True, slots=True)
class OpenedSeries:
    """A series in the database: its id, and the place it belongs to."""

    series_id: int
    place_id: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One run set's span on its place, in Unix seconds; it goes on where `ended_at` is infinite."""

    place_id: int
    runset_id: int
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Retagged:
    """The span of time in which samples got other tags, in Unix seconds."""

    moved: int
    lowest: float
    highest: float


def register_target(connection: Connection, *, host: str, listener: str, instance: str, url: str) -> int:
    """Return the id of a target, made where it is new; a listener of our own keeps it when its port changes."""
    row = connection.execute(
        """
        insert into targets (host, listener, instance, url) values (%s, %s, %s, %s)
        on conflict (host, listener, instance) do update set url = excluded.url
        returning target_id
        """,
        (host, listener, instance, url),
    ).fetchone()
    assert row is not None
    return int(row[0])


def report_targets(connection: Connection, states: Mapping[int, tuple[bool, float | None]]) -> None:
    """Record of each target whether its last scrape worked, and when one last did (Unix seconds)."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "update targets set up = %s, last_seen = coalesce(to_timestamp(%s), last_seen) where target_id = %s",
            [(up, last_seen, target_id) for target_id, (up, last_seen) in states.items()],
        )


def open_series(
    connection: Connection, target_id: int, series: Sequence[tuple[str, Mapping[str, str]]]
) -> list[OpenedSeries]:
    """Open series of one target, given as metric and labels, or find them; the answer has their order."""
    items = [{"metric": metric, "labels": dict(labels)} for metric, labels in series]
    rows = connection.execute(
        "select series_id, place_id from open_series(%s, %s) order by ord", (target_id, Jsonb(items))
    ).fetchall()
    return [OpenedSeries(*row) for row in rows]


def tag_version(connection: Connection) -> int:
    """Return the version of the run sets, and keep it from changing until the transaction is over."""
    row = connection.execute("select version from tag_version for share").fetchone()
    assert row is not None
    return int(row[0])


def run_set_segments(connection: Connection, since: float) -> list[Segment]:
    """Return the spans of all run sets that reach beyond `since` (Unix seconds)."""
    rows = connection.execute(
        """
        select distinct place_id, runset_id, extract(epoch from started_at)::float8,
               coalesce(extract(epoch from ended_at)::float8, 'infinity')
        from run_sets where ended_at is null or ended_at > to_timestamp(%s)
        """,
        (since,),
    ).fetchall()
    return [Segment(*row) for row in rows]


def claim_batches(connection: Connection, source: str, batches: Sequence[int]) -> set[int]:
    """Enter batches into the ledger, in the transaction that writes them; return those that were not there yet."""
    rows = connection.execute(
        "insert into batches (source, batch) select %s, unnest(%s::bigint[]) on conflict do nothing returning batch",
        (source, list(batches)),
    ).fetchall()
    return {batch for (batch,) in rows}


def forget_batches(connection: Connection, source: str, below: int) -> None:
    """Take batches out of the ledger that can never be sent again."""
    connection.execute("delete from batches where source = %s and batch < %s", (source, below))


def copy_samples(
    connection: Connection,
    times: npt.NDArray[np.float64],
    series_ids: npt.NDArray[np.int32],
    runset_ids: npt.NDArray[np.int32],
    values: npt.NDArray[np.float64],
    dts: npt.NDArray[np.float32],
) -> None:
    """Write samples, in arrays of one shape ``(n,)``: Unix seconds, ids, figures (NaN for null), seconds."""
    missing = np.isnan(values)
    columns: dict[str, npt.NDArray[Any]] = {
        "time": times,
        "series_id": series_ids,
        "runset_id": runset_ids,
        "value": values,
        "dt": dts,
    }
    with connection.cursor().copy(
        "copy samples (time, series_id, runset_id, value, dt) from stdin (format binary)"
    ) as copy:
        copy.write(_SIGNATURE)
        copy.write(_rows(_ROW, {name: column[~missing] for name, column in columns.items()}))
        if missing.any():
            copy.write(_rows(_NULL_ROW, {name: column[missing] for name, column in columns.items()}))
        copy.write(_TRAILER)


def _rows(layout: np.dtype[np.void], columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    names = layout.names or ()
    rows = np.empty(len(columns["time"]), layout)
    for name, size in _SIZES.items():
        rows[name] = size
    for name, column in columns.items():
        if name == "time":
            rows["time"] = np.round((column - _EPOCH_2000) * 1e6)
        elif name in names:
            rows[name] = column
    if "value" not in names:
        rows["value_size"] = -1
    return rows.tobytes()


def retag(connection: Connection) -> list[Retagged]:
    """Give all samples the tags that the run sets say by now, wherever these have changed; return what moved."""
    moved: list[Retagged] = []
    with connection.transaction():
        rows = connection.execute("delete from retags returning place_id, from_time").fetchall()
        earliest = {place: min(time for other, time in rows if other == place) for place, _ in rows}
        for place_id, from_time in earliest.items():
            row = connection.execute(
                """
                select moved, extract(epoch from lowest)::float8, extract(epoch from highest)::float8
                from retag(%s, %s)
                """,
                (place_id, from_time),
            ).fetchone()
            if row is not None and row[0]:
                moved.append(Retagged(*row))
    return moved


def mark_unsummarised(connection: Connection, lowest: float) -> None:
    """Have the summaries written again of runs that ended after `lowest` (Unix seconds): samples have come since."""
    connection.execute(
        "update runs set summarised = false where summarised and ended_at >= to_timestamp(%s)", (lowest,)
    )


def summarise_ended_runs(connection: Connection, settled: float) -> int:
    """Write the summaries of runs that ended `settled` seconds ago or earlier; return how many."""
    rows = connection.execute(
        """
        select summarise(run_id) from runs
        where not summarised and started_at is not null and ended_at < now() - make_interval(secs => %s)
        """,
        (settled,),
    ).fetchall()
    return len(rows)
