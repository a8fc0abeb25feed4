"""Progress of a move, in the target: the parts that are complete, each committed together with its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.backup import MLFLOW, relations
from hypergauge.sql.transfer.move.checksums import Checksum

__all__ = ["NEW_DATABASE", "Part", "Progress", "begun", "refuse_content"]

NEW_DATABASE = "a move needs an empty database: `create database …`, or another BENCH_HOME for the embedded one"
# Tables that migrations fill. Those of MLflow are replaced, if it has no runs.
_FILLED = frozenset({"metrics", "tag_version", "retention"})


@dataclass(frozen=True, slots=True)
class Part:
    """Table, or a time slice of the samples from `low` to `high`."""

    table: str
    low: datetime | None = None
    high: datetime | None = None

    def __str__(self) -> str:
        return self.table if self.low is None else f"{self.table} from {self.low:%Y-%m-%d %H:%M} UTC on"


class Progress:
    """Progress of the move from one source. It survives the command, in the schema ``bench_move``.

    Parameters
    ----------
    connection
        Connection to the target.
    source
        Identity of the source.
    raw_cutoff
        Raw cutoff of the source as text.

    Attributes
    ----------
    finished_at
        End of the move, ``None`` before.
    """

    def __init__(self, connection: Connection, source: str, raw_cutoff: str) -> None:
        self._connection = connection
        self.finished_at: datetime | None = None
        if begun(connection):
            self._resume(source, raw_cutoff)
        else:
            self._begin(source, raw_cutoff)

    def _begin(self, source: str, raw_cutoff: str) -> None:
        with self._connection.transaction():
            self._connection.execute(
                """
                create schema bench_move;
                create table bench_move.move (
                    source text not null, raw_cutoff text not null, begun_at timestamptz not null default now(),
                    finished_at timestamptz);
                create table bench_move.parts (
                    name text not null, low timestamptz, high timestamptz,
                    rows bigint, total numeric,     -- null if the copy differs and must be made again
                    unique nulls not distinct (name, low, high));
                """
            )
            self._connection.execute(
                "insert into bench_move.move (source, raw_cutoff) values (%s, %s)", (source, raw_cutoff)
            )
            # Before the first sample: else a background job aggregates samples whose aggregates are copied.
            self._connection.execute("update bench_internal.retention set raw_cutoff = %s", (raw_cutoff,))

    def _resume(self, source: str, raw_cutoff: str) -> None:
        row = self._connection.execute("select source, raw_cutoff, finished_at from bench_move.move").fetchone()
        assert row is not None
        if row[0] != source:
            state = "an unfinished move" if row[2] is None else "the result of a move"
            raise BadRequest(f"the target holds {state} from another database; {NEW_DATABASE}")
        self.finished_at = row[2]
        if self.finished_at is None and row[1] != raw_cutoff:
            raise BadRequest(f"retention has deleted samples of the source since this move began; {NEW_DATABASE}")

    def parts(self) -> dict[Part, Checksum | None]:
        """Return the checksums of the complete parts; ``None`` for a part that differed."""
        rows = self._connection.execute("select name, low, high, rows, total from bench_move.parts").fetchall()
        return {
            Part(name, low, high): None if total is None else Checksum(rows, int(total))
            for name, low, high, rows, total in rows
        }

    def mark(self, part: Part, checksum: Checksum | None) -> None:
        """Enter a part, in the transaction that writes its rows."""
        self._connection.execute(
            """
            insert into bench_move.parts (name, low, high, rows, total) values (%s, %s, %s, %s, %s)
            on conflict (name, low, high) do update set rows = excluded.rows, total = excluded.total
            """,
            (part.table, part.low, part.high, checksum and checksum.rows, checksum and checksum.total),
        )

    def forget(self, part: Part) -> None:
        """Remove a part, in the transaction that deletes its rows."""
        self._connection.execute(
            "delete from bench_move.parts where (name, low, high) is not distinct from (%s, %s::timestamptz, %s::timestamptz)",
            (part.table, part.low, part.high),
        )

    def finish(self, keep_raw: object) -> None:
        """End the move, and begin the source's retention."""
        with self._connection.transaction():
            self._connection.execute("update bench_internal.retention set keep_raw = %s", (keep_raw,))
            self._connection.execute("update bench_move.move set finished_at = now()")
            self._connection.execute("drop table bench_move.parts")


def begun(connection: Connection) -> bool:
    """Return whether a move into this database has begun."""
    return connection.execute("select to_regclass('bench_move.move')").fetchone() != (None,)


def refuse_content(connection: Connection) -> None:
    """Refuse a target with rows in our tables, or with runs of MLflow.

    Raises
    ------
    BadRequest
        It has some.
    """
    for table, query in relations(connection):
        if table.name in _FILLED or (table.schema == MLFLOW and table.name != "runs"):
            continue
        if connection.execute(sql.SQL("select from ({}) x limit 1").format(query)).fetchone() is not None:
            raise BadRequest(f"the target is not empty ({table.schema}.{table.name} has rows); {NEW_DATABASE}")
