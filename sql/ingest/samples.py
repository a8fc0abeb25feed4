"""Statements of the write path: series, tags, and batches of samples by binary COPY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from psycopg.types.json import Jsonb

from hypergauge.sql.ingest.columns import Columns, encoded
from hypergauge.sql.server.database import Connection

__all__ = [
    "Columns",
    "OpenedSeries",
    "Segment",
    "WriteState",
    "begin_write",
    "copy_samples",
    "end_write",
    "forget_batches",
    "mark_unsummarised",
    "open_series",
    "request_retag",
    "retag",
    "run_set_segments",
    "summarise_ended_runs",
    "taken_over",
    "worth_compressing",
    "written_batches",
]

# Samples of a series in one transaction from which on they are worth being compressed as they are written.
_COMPRESSED_FROM = 100


@dataclass(frozen=True, slots=True)
class OpenedSeries:
    """A series in the database: its id, and the place it belongs to."""

    series_id: int
    place_id: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One run set's span on its place, in Unix seconds; it goes on where `ended_at` is infinite.

    `own` is whether the place is the process tree of one run.
    """

    place_id: int
    runset_id: int
    started_at: float
    ended_at: float
    own: bool = False


@dataclass(frozen=True, slots=True)
class WriteState:
    """State when writing begins: the version of the run sets, and the raw cutoff, which stays.

    `fresh` are the batches that were not written before, `now` is the database's time. All times are Unix seconds; the edge
    is ``-inf`` where nothing was ever deleted.
    """

    fresh: frozenset[int]
    version: int
    edge: float
    now: float


def open_series(
    connection: Connection, target_id: int, series: Sequence[tuple[str, Mapping[str, str], str]]
) -> list[OpenedSeries]:
    """Open series of one target, given as metric, labels and kind, or find them; the answer has their order."""
    items = [{"metric": metric, "labels": dict(labels), "counts": kind == "counter"} for metric, labels, kind in series]
    rows = connection.execute(
        "select series_id, place_id from open_series(%s, %s) order by ord", (target_id, Jsonb(items))
    ).fetchall()
    return [OpenedSeries(*row) for row in rows]


def begin_write(connection: Connection, source: str, batches: Sequence[int]) -> WriteState:
    """Enter batches into the ledger, in the transaction that writes them; the edge of retention stays until it is over.

    Series are to be opened before it: a scheduler that makes the same place would wait for the whole transaction.
    """
    row = connection.execute(
        "select fresh, version, edge, now from begin_write(%s, %s)", (source, list(batches))
    ).fetchone()
    assert row is not None
    return WriteState(frozenset(row[0]), *row[1:])


def end_write(connection: Connection) -> int:
    """Keep the run sets from changing until the transaction is over, and return their version by now."""
    row = connection.execute("select end_write()").fetchone()
    assert row is not None
    return int(row[0])


def taken_over(connection: Connection, source: str, since: float) -> dict[int, float]:
    """Return the targets that other collectors have had since a time later than `since`, with that time. Unix seconds.

    Both are by the clock of the target's host, which samples go by.
    """
    rows = connection.execute(
        """
        select target_id, held from (
            select target_id, extract(epoch from held_since)::float8
                + case when abs(clock_offset) - clock_uncertainty > 1 then round(clock_offset) else 0 end as held
            from targets where collector <> %s) x
        where held > %s
        """,
        (source, since),
    ).fetchall()
    return dict(rows)


def run_set_segments(connection: Connection, since: float) -> list[Segment]:
    """Return the spans of all run sets that reach beyond `since` (Unix seconds)."""
    rows = connection.execute(
        """
        select distinct place_id, runset_id, extract(epoch from started_at)::float8,
               coalesce(extract(epoch from ended_at)::float8, 'infinity'), scope = 'process'
        from run_sets where ended_at is null or ended_at > to_timestamp(%s)
        """,
        (since,),
    ).fetchall()
    return [Segment(*row) for row in rows]


def written_batches(connection: Connection, source: str, since: int) -> set[int]:
    """Return the batches of the ledger from `since` on."""
    rows = connection.execute("select batch from batches where source = %s and batch >= %s", (source, since))
    return {batch for (batch,) in rows}


def forget_batches(connection: Connection, source: str, below: int) -> None:
    """Take batches out of the ledger that can never be sent again."""
    connection.execute("delete from batches where source = %s and batch < %s", (source, below))


def worth_compressing(columns: Columns) -> bool:
    """Return whether samples are many enough a series to be compressed as they are written."""
    return len(columns) >= _COMPRESSED_FROM * int(np.count_nonzero(np.bincount(columns.series_ids)))


def copy_samples(connection: Connection, columns: Columns, *, edge: float = -np.inf, compressed: bool = False) -> None:
    """Write samples.

    Parameters
    ----------
    edge
        Of retention, Unix seconds: what lies below goes to the aggregates as well, since no refresh will bring it there.
    compressed
        Whether they are written into the columnstore at once, see `worth_compressing`; nothing in plain PostgreSQL.
    """
    behind = columns.times < edge
    if behind.any():
        _copy(connection, "late_samples", columns.where(behind))
        connection.execute("select write_below_edge()")
        columns = columns.where(~behind)
    if compressed:
        columns = columns.where(np.lexsort((columns.times, columns.series_ids)))
        connection.execute("set local timescaledb.enable_direct_compress_copy = on")
    _copy(connection, "samples", columns)


def _copy(connection: Connection, table: str, columns: Columns) -> None:
    with connection.cursor().copy(
        f"copy {table} (time, series_id, runset_id, value, dt) from stdin (format binary)".encode()
    ) as copy:
        for block in encoded(columns):
            copy.write(block)


def request_retag(connection: Connection, places: Mapping[int, float]) -> None:
    """Have the samples of places tagged anew, from a time in Unix seconds on, by the next `retag` after this transaction."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into retags (place_id, from_time) values (%s, to_timestamp(%s))", list(places.items())
        )


def retag(connection: Connection) -> int:
    """Give all samples the tags that the run sets say by now, wherever these have changed; return how many moved."""
    if connection.execute("select from retags limit 1").fetchone() is None:
        return 0
    with connection.transaction():
        rows = connection.execute("delete from retags returning place_id, from_time").fetchall()
        earliest = {place: min(time for other, time in rows if other == place) for place, _ in rows}
        moved = [connection.execute("select retag(%s, %s)", change).fetchone() for change in earliest.items()]
    return sum(int(row[0]) for row in moved if row is not None)


def mark_unsummarised(connection: Connection, runset_ids: Sequence[int]) -> None:
    """Have the summaries written again of the runs in these sets: samples have come since."""
    connection.execute(
        """
        update runs set summarised = false
        where summarised and started_at >= (select edge from retention)
          and run_id in (select run_id from run_sets where runset_id = any(%s))
        """,
        (list(runset_ids),),
    )


def summarise_ended_runs(connection: Connection, settled: float) -> int:
    """Write the summaries of runs that ended `settled` seconds ago or earlier; return how many.

    Of several collectors one writes the summary of a run, and the others pass it over.
    """
    rows = connection.execute(
        """
        with due as materialized (
            select run_id from runs
            where not summarised and started_at is not null and ended_at < now() - make_interval(secs => %s)
            for no key update skip locked
        )
        select summarise(run_id) from due
        """,
        (settled,),
    ).fetchall()
    return len(rows)
