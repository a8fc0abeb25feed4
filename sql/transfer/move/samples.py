"""Time slices of the samples: copied in one transaction each, in the order of TimescaleDB's columnstore.

Packed samples never cross an hour, and slices begin at full hours: a packed row is in one slice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from psycopg import sql

from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value
from hypergauge.sql.transfer.copying import copy_between
from hypergauge.sql.transfer.move.checksums import Checksum, samples_checksum
from hypergauge.sql.transfer.move.progress import Part
from hypergauge.sql.transfer.restore import DIRECT_COMPRESS

__all__ = ["SAMPLES", "checksum", "copy_slice", "delete_slice", "hours", "pack", "slices"]

SAMPLES = "bench.samples"
# Rows that plain PostgreSQL has unpacked for a while: half a gigabyte.
_ROWS_AT_ONCE = 5_000_000
_COLUMNS = sql.SQL("time, series_id, runset_id, value, dt")


def hours(connection: Connection) -> dict[datetime, int]:
    """Return the number of samples in each hour that has any."""
    found: dict[datetime, int] = {}
    for relation, last, samples in _relations(connection):
        rows = connection.execute(
            sql.SQL(
                "select date_bin('1 hour', {last}, timestamptz '2000-01-03 00:00:00+00'), sum({samples})::bigint from {relation} group by 1"
            ).format(last=last, samples=samples, relation=relation)
        ).fetchall()
        for hour, count in rows:
            found[hour] = found.get(hour, 0) + count
    return dict(sorted(found.items()))


def slices(counts: dict[datetime, int], most: int = _ROWS_AT_ONCE) -> list[Part]:
    """Return slices of at most a day and `most` samples, but at least an hour. They cover each hour of `counts`."""
    found: list[Part] = []
    held = 0
    for hour, count in counts.items():
        hour, end = hour.astimezone(UTC), hour.astimezone(UTC) + timedelta(hours=1)
        last = found[-1] if found else None
        if last is not None and last.low is not None and last.low.date() == hour.date() and held + count <= most:
            found[-1] = Part(SAMPLES, last.low, end)
            held += count
        else:
            found.append(Part(SAMPLES, hour, end))
            held = count
    return found


def checksum(connection: Connection, part: Part) -> Checksum:
    """Return the checksum of a slice, through the view that readers use."""
    return samples_checksum(connection, _rows(part))


def copy_slice(source: Connection, target: Connection, part: Part) -> None:
    """Copy a slice, in a transaction of the target."""
    for name in DIRECT_COMPRESS:
        target.execute("select set_config(name, 'on', true) from pg_settings where name = %s", (name,))
    table = value(target, str, "select sample_table()")
    reading = sql.SQL("copy ({} order by series_id, time) to stdout (format binary)").format(_rows(part))
    writing = sql.SQL("copy {} ({}) from stdin (format binary)").format(sql.Identifier(*table.split(".")), _COLUMNS)
    copy_between(source, reading, target, writing)


def delete_slice(target: Connection, part: Part) -> None:
    """Delete the samples of a slice."""
    target.execute(
        "select set_config(name, '0', true) from pg_settings where name = 'timescaledb.max_tuples_decompressed_per_dml_transaction'"
    )
    for relation, last, _ in _relations(target):
        statement = sql.SQL("delete from {relation} where {last} >= %s and {last} < %s")
        target.execute(statement.format(relation=relation, last=last), (part.low, part.high))
    if inspect(target).flavour is Flavour.POSTGRESQL:
        target.execute("select delete_unused_scrapes()")


def pack(target: Connection) -> None:
    """Pack the copied samples, and free the space of their rows. Only in plain PostgreSQL."""
    if inspect(target).flavour is Flavour.POSTGRESQL:
        target.execute("call pack(now() - interval '10 min')")
        target.execute("vacuum bench_internal.unpacked_samples")


def _rows(part: Part) -> sql.Composed:
    return sql.SQL(
        "select {columns} from bounded_samples where last >= {low} and first < {high} and time >= {low} and time < {high}"
    ).format(columns=_COLUMNS, low=sql.Literal(part.low), high=sql.Literal(part.high))


def _relations(connection: Connection) -> list[tuple[sql.SQL, sql.SQL, sql.SQL]]:
    """Return the relations with samples: name, column of the last time, and expression of the number of samples."""
    rows = connection.execute("select relation, last_column, samples from sample_relations() where samples is not null")
    return [(sql.SQL(relation), sql.SQL(last), sql.SQL(samples)) for relation, last, samples in rows]
