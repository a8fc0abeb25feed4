"""Statements of the write path: series, tags, and batches of samples by binary COPY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from psycopg.types.json import Jsonb

from hypergauge.sql.ingest.columns import Columns, encoded
from hypergauge.sql.ingest.limits import limited
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value

__all__ = [
    "Columns",
    "LineHost",
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

# Least samples per series and transaction for which compression on write pays off.
_COMPRESSED_FROM = 100


@dataclass(frozen=True, slots=True)
class OpenedSeries:
    """Series in the database: its id, its resource, and the resolution of its sensor; ``None`` keeps values as read."""

    series_id: int
    place_id: int
    resolution: float | None


@dataclass(frozen=True, slots=True)
class Segment:
    """Interval of a run set on its resource, in Unix seconds; `ended_at` is infinite while the run set is active.

    `own` marks a resource that is the process tree of one run.
    """

    place_id: int
    runset_id: int
    started_at: float
    ended_at: float
    own: bool = False


class LineHost(NamedTuple):
    """Host of a series, where its own labels decide it.

    Attributes
    ----------
    host
        Its name; empty for a series that describes no host, such as a sum over several.
    by_label
        Whether the label ``host`` names it, which overrides a line's ``Hostname``.
    """

    host: str
    by_label: bool = False


@dataclass(frozen=True, slots=True)
class WriteState:
    """State at the start of a write: the version of the run sets, and the raw cutoff, fixed until the transaction ends.

    `fresh` holds the batches that were not written before. `now` is the database's time. All times are Unix seconds;
    `raw_cutoff` is ``-inf`` if retention has never deleted samples. `table` is the table of samples.
    """

    fresh: frozenset[int]
    version: int
    raw_cutoff: float
    now: float
    table: str


def open_series(
    connection: Connection,
    target_id: int,
    series: Sequence[tuple[str, Mapping[str, str], str]],
    hosts: Sequence[LineHost | None] | None = None,
) -> list[OpenedSeries]:
    """Create or find series of one target, given as metric, labels and kind. The result keeps their order.

    Parameters
    ----------
    hosts
        The host that each of them names itself, if any; by default none of them does.
    """
    items = [
        {"metric": metric, "labels": dict(labels), "counts": kind == "counter", **(host._asdict() if host else {})}
        for (metric, labels, kind), host in zip(series, hosts or [None] * len(series), strict=True)
    ]
    rows = connection.execute(
        "select series_id, place_id, resolution from open_series(%s, %s) order by ord", (target_id, Jsonb(items))
    ).fetchall()
    return [OpenedSeries(*row) for row in rows]


def begin_write(connection: Connection, source: str, batches: Sequence[int]) -> WriteState:
    """Record batches in the ledger, in the transaction that writes them. The raw cutoff is fixed until it ends.

    Open series before this call: otherwise a scheduler that creates the same resource waits for the whole transaction.
    """
    row = connection.execute(
        "select fresh, version, raw_cutoff, now, sample_table() from begin_write(%s, %s)", (source, list(batches))
    ).fetchone()
    assert row is not None
    return WriteState(frozenset(row[0]), *row[1:])


def end_write(connection: Connection) -> int:
    """Lock the run sets until the transaction ends, and return their current version."""
    return value(connection, int, "select end_write()")


def taken_over(connection: Connection, source: str, since: float) -> dict[int, float]:
    """Return the targets that other collectors have taken since `since`, with the time of the takeover. Unix seconds.

    Both times are on the clock of the target's host, as are sample times.
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
    """Return the intervals of all run sets that end after `since` (Unix seconds)."""
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
    """Return the recorded batches from number `since` on."""
    rows = connection.execute("select batch from batches where source = %s and batch >= %s", (source, since))
    return {batch for (batch,) in rows}


def forget_batches(connection: Connection, source: str, below: int) -> None:
    """Delete batches below `below` from the ledger: the collector never sends them again."""
    connection.execute("delete from batches where source = %s and batch < %s", (source, below))


def worth_compressing(columns: Columns) -> bool:
    """Return whether the samples per series suffice for compression on write."""
    return len(columns) >= _COMPRESSED_FROM * int(np.count_nonzero(np.bincount(columns.series_ids)))


def copy_samples(
    connection: Connection,
    columns: Columns,
    *,
    raw_cutoff: float = -np.inf,
    compressed: bool = False,
    table: str | None = None,
) -> None:
    """Write samples, with values that are `limited`.

    Parameters
    ----------
    raw_cutoff
        Cutoff of retention, Unix seconds. Older samples go directly to the aggregates, since no refresh covers them.
    compressed
        Whether to write directly into the columnstore, see `worth_compressing`. No effect in plain PostgreSQL.
    table
        Table of samples if known, which saves a query.
    """
    columns = replace(columns, values=limited(columns.values))
    behind = columns.times < raw_cutoff
    if behind.any():
        _copy(connection, "late_samples", columns.where(behind))
        connection.execute("select write_below_cutoff()")
        columns = columns.where(~behind)
    if compressed:
        columns = columns.where(np.lexsort((columns.times, columns.series_ids)))
        connection.execute("set local timescaledb.enable_direct_compress_copy = on")
    _copy(connection, table or value(connection, str, "select sample_table()"), columns)


def _copy(connection: Connection, table: str, columns: Columns) -> None:
    with connection.cursor().copy(
        f"copy {table} (time, series_id, runset_id, value, dt) from stdin (format binary)".encode()
    ) as copy:
        for block in encoded(columns):
            copy.write(block)


def request_retag(connection: Connection, earliest: Mapping[int, float]) -> None:
    """Queue resources for the next `retag` after this transaction, each from a time in Unix seconds on."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into retag_queue (place_id, from_time) values (%s, to_timestamp(%s))", list(earliest.items())
        )


def retag(connection: Connection) -> int:
    """Update the tags of samples to the current run sets, for all queued resources. Return the number of changed samples."""
    if connection.execute("select from retag_queue limit 1").fetchone() is None:
        return 0
    with connection.transaction():
        rows = connection.execute("delete from retag_queue returning place_id, from_time").fetchall()
        earliest = {place_id: min(time for other, time in rows if other == place_id) for place_id, _ in rows}
        moved = [connection.execute("select retag(%s, %s)", change).fetchone() for change in earliest.items()]
    return sum(int(row[0]) for row in moved if row is not None)


def mark_unsummarised(connection: Connection, runset_ids: Sequence[int]) -> None:
    """Mark the summaries of the runs in these sets as outdated, since new samples have arrived."""
    connection.execute(
        """
        update runs set summarised = false
        where summarised and started_at >= (select raw_cutoff from retention)
          and run_id in (select run_id from run_sets where runset_id = any(%s))
        """,
        (list(runset_ids),),
    )


def summarise_ended_runs(connection: Connection, settled: float) -> int:
    """Write the summaries of runs that ended at least `settled` seconds ago. Return their number.

    With several collectors, one writes the summary of a run and the rest skip the run.
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
