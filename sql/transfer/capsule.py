"""Capsule: some runs in one file, for another database.

It holds the runs' own records and their raw samples. Of neighbours it holds only their number.
"""

from __future__ import annotations

import contextlib
import uuid
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString

import numpy as np
from psycopg import sql

from hypergauge import __version__
from hypergauge.core.errors import BadRequest
from hypergauge.core.listing import listed
from hypergauge.sql.ingest.columns import Columns
from hypergauge.sql.queries import buckets
from hypergauge.sql.queries.stream import stream
from hypergauge.sql.queries.summaries import unsummarised
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.schema.migrate import applied
from hypergauge.sql.schema.schemas import INTERNAL, PUBLIC
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.archive import Manifest, Table, part_member, writing
from hypergauge.sql.transfer.members import copy_out
from hypergauge.sql.transfer.parts import packed
from hypergauge.sql.transfer.snapshot import snapshot

__all__ = ["OURS", "TABLES", "Exported", "export", "schema_of"]

_OF_RUNS: LiteralString = "run_id = any({runs})"
_WORKLOADS: LiteralString = "workload_id in (select workload_id from runs where run_id = any({runs}))"
# Condition on the rows of each table, in an order that satisfies foreign keys.
TABLES: dict[str, LiteralString] = {
    "experiments": "experiment_id in (select experiment_id from workloads where " + _WORKLOADS + ")",  # noqa: S608 - only our own text
    "workloads": _WORKLOADS,
    "runs": _OF_RUNS,
    "placements": _OF_RUNS,
    "metrics": "metric_id in (select metric_id from series where series_id = any({series}))",
    "places": "place_id in (select place_id from run_sets where run_id = any({runs}))",
    "series": "series_id = any({series})",
    "run_sets": _OF_RUNS,
    "software_metrics": _OF_RUNS,
    "spans": _OF_RUNS,
    "stored_summaries": _OF_RUNS,
    "stored_duplicates": _OF_RUNS + " and series_id = any({series})",
    "stored_contention": _OF_RUNS,
    "rule_firings": _OF_RUNS,
    "highlights": _OF_RUNS,
    "rule_actions": _OF_RUNS,
    "accounting": _OF_RUNS,
    "profiles": _OF_RUNS,
    "profile_entries": _OF_RUNS,
    "profile_stacks": _OF_RUNS,
    "tensor_sets": _OF_RUNS,
    "tensor_steps": _OF_RUNS,
    "tensor_problems": _OF_RUNS,
}
_INTERNAL = frozenset(
    {"stored_summaries", "stored_duplicates", "stored_contention", "tensor_sets", "tensor_steps", "tensor_problems"}
)
# Columns that describe this database, not the runs.
OURS = [
    ("runs", "job"),
    ("runs", "stop_reason"),
    ("placements", "origin"),
    ("places", "origin"),
    ("metrics", "origin"),
    ("series", "target_id"),
]
_OTHERS: LiteralString = (
    "others + (select count(*) from run_sets o where o.runset_id = t.runset_id and o.run_id <> all({runs}))"
)


@dataclass(frozen=True, slots=True)
class Exported:
    """Content of a written capsule, with notes for the user."""

    runs: int
    samples: int
    notes: tuple[str, ...]


def schema_of(name: str) -> str:
    """Return the schema of a capsule's table."""
    return INTERNAL if name in _INTERNAL else PUBLIC


def export(
    connection: Connection, runs: Sequence[RunInfo], path: Path, report: Callable[[int], None] = lambda _: None
) -> Exported:
    """Write a capsule of `runs`, which replaces `path` once complete. `report` receives the number of written samples.

    Raises
    ------
    BadRequest
        One of the runs is running, or none has ended.
    """
    runs, notes = _ended(runs)
    ids = [run.run_id for run in runs]
    with writing(path, replace=True) as archive, snapshot(connection):
        deleted = buckets.deleted_samples(connection, ids)
        if deleted is not None:
            notes.append(
                f"raw samples from before {deleted.cutoff:%Y-%m-%d} are deleted here; the capsule has minimum, mean and maximum of "
                "every 10 s instead"
            )
        with contextlib.closing(_blocks(connection, ids, deleted)) as blocks:
            parts, series = _samples(archive, blocks, report)
        manifest = Manifest(
            release=__version__,
            schema_version=max(applied(connection)),
            server=inspect(connection).describe(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            tables=tuple(_tables(connection, archive, ids, series)),
            kind="capsule",
            capsule=uuid.uuid4().hex,
            parts=tuple(parts),
        )
        manifest.write(archive)
        notes += _of_others(connection, ids)
        if unsummarised(connection, ids):
            notes.append("some samples of these runs may not be written yet: their summaries are not final")
    return Exported(len(runs), sum(parts), tuple(notes))


def _ended(runs: Sequence[RunInfo]) -> tuple[list[RunInfo], list[str]]:
    """Return the ended runs, with a note on the runs that never started."""
    if running := [run.label for run in runs if run.status == "running"]:
        raise BadRequest(
            f"{listed(running, 8)} still run{'s'[len(running) > 1 :]}, and a capsule holds runs that have ended: wait, or name the others"
        )
    ended = [run for run in runs if run.ended_at is not None]
    waiting = [run.label for run in runs if run.ended_at is None]
    if not ended:
        raise BadRequest(
            f"{listed(waiting, 8)} ha{'ve' if len(waiting) > 1 else 's'} not begun: there is nothing to export"
        )
    return ended, [f"left out, since not begun: {listed(waiting, 8)}"] if waiting else []


def _blocks(connection: Connection, run_ids: list[str], deleted: buckets.DeletedSamples | None) -> Generator[Columns]:
    if deleted is None:
        yield from stream(connection, run_ids)
    else:
        yield from stream(connection, run_ids, condition=deleted.condition())
        yield from buckets.as_samples(connection, run_ids, deleted)


def _samples(
    archive: zipfile.ZipFile, blocks: Iterator[Columns], report: Callable[[int], None]
) -> tuple[list[int], list[int]]:
    """Write the samples. Return the number of samples per part, and the series."""
    parts: list[int] = []
    series: set[int] = set()
    for block in blocks:
        # Parquet parts are already compressed.
        archive.writestr(part_member(len(parts)), packed(block), zipfile.ZIP_STORED)
        parts.append(len(block))
        series.update(np.unique(block.series_ids).tolist())
        report(sum(parts))
    return parts, sorted(series)


def _tables(connection: Connection, archive: zipfile.ZipFile, run_ids: list[str], series: list[int]) -> Iterator[Table]:
    for name, condition in TABLES.items():
        columns = [
            column
            for (column,) in connection.execute(
                """
                select attname::text from pg_attribute
                where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''
                order by attnum
                """,
                (f"{schema_of(name)}.{name}",),
            ).fetchall()
            if (name, column) not in OURS
        ]
        read = [
            sql.SQL(_OTHERS).format(runs=run_ids) if column == "others" else sql.Identifier(column)
            for column in columns
        ]
        query = sql.SQL("select {} from {} t where {}").format(
            sql.SQL(", ").join(read),
            sql.Identifier(name),  # unqualified: may be a view of `bench_own`
            sql.SQL(condition).format(runs=run_ids, series=series),
        )
        yield copy_out(connection, archive, Table(schema_of(name), name, tuple(columns), 0), query)


def _of_others(connection: Connection, run_ids: list[str]) -> list[str]:
    row = connection.execute(
        """
        select count(distinct o.run_id) from run_sets mine join run_sets o using (runset_id)
        where mine.run_id = any(%(runs)s) and o.run_id <> all(%(runs)s)
        """,
        {"runs": run_ids},
    ).fetchone()
    if row is None or not row[0]:
        return []
    return [f"{row[0]} other run{'s'[: row[0] != 1]} ran beside them; the capsule has only their number"]
