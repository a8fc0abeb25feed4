"""Import of a capsule in one transaction: all of its new runs, or none.

What was measured elsewhere gets places of its own, so that it never mixes with what is measured here. Its tags come with it
and are not decided again: so nothing is held that keeps runs here from beginning and ending meanwhile.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psycopg

from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.columns import Columns
from hypergauge.sql.maintenance.aggregates import refresh, retention
from hypergauge.sql.server.database import Connection, Database, StatementFailed
from hypergauge.sql.server.session import Session
from hypergauge.sql.transfer import quarantine, staging
from hypergauge.sql.transfer.archive import Manifest, opened, part_member
from hypergauge.sql.transfer.parts import unpacked

__all__ = ["Imported", "import_capsule"]

# For a server that is restarted meanwhile, or a policy's job that is in the way: all is done again, or nothing.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes
    ----------
    experiments
        The experiments that its runs are in.
    here
        How many runs of the capsule were here already, and stayed as they were.
    notes
        What is to be known of it.
    """

    experiments: tuple[int, ...]
    runs: int
    here: int
    samples: int
    notes: tuple[str, ...] = ()


def import_capsule(
    database: Database, path: Path, into: int | None = None, tell: Callable[[int, int], None] = lambda _, __: None
) -> Imported:
    """Bring the runs of the capsule `path` in that are not here yet.

    Parameters
    ----------
    into
        The experiment that they go to; by default the one that they were in.
    tell
        Hears how many samples are written, and of how many.

    Raises
    ------
    BadRequest
        The file is damaged, none of ours, or of a newer release; or its experiment, or the place of a run in it, is taken.
    """
    with opened(path, "capsule") as (archive, manifest), Session(database, _PATIENCE_SECONDS) as session:
        try:
            imported = session(_write, archive, manifest, into, tell)
        except BadRequest as error:
            raise BadRequest(str(error), file=path) from None
        if imported.runs:
            session(_settle)
        return imported


def _write(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, into: int | None,
    tell: Callable[[int, int], None],
) -> Imported:  # fmt: skip
    with connection.transaction():
        connection.execute(
            "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;"
            "select pg_advisory_xact_lock(hashtext('bench.import'))"
        )
        imported = _bring_in(connection, archive, manifest, into, tell)
        staging.clear(connection)
        return imported


def _bring_in(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, into: int | None,
    tell: Callable[[int, int], None],
) -> Imported:  # fmt: skip
    staging.stage(connection, archive, manifest)
    total, here = staging.leave_out_what_is_here(connection)
    if here == total:
        return Imported((), 0, here, 0)
    experiments = staging.claim(connection, into)
    notes = staging.notes(connection)
    quarantine.keep_apart(connection, manifest.capsule)
    staging.renumber(connection)
    staging.insert(connection)
    written = _samples(connection, archive, manifest, tell)
    quarantine.settle(connection)
    return Imported(tuple(experiments), total - here, here, written, tuple(notes))


def _samples(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, tell: Callable[[int, int], None]
) -> int:
    # The edge of retention stays where it is meanwhile.
    connection.execute("select pg_advisory_xact_lock_shared(hashtext('bench.samples'))")
    edge = retention(connection).edge
    series, sets = _NewIds.of(connection, "series"), _NewIds.of(connection, "run set")
    total, read, written = sum(manifest.parts), 0, 0
    for number, count in enumerate(manifest.parts):
        try:
            columns = unpacked(archive.read(part_member(number)), count)
        except ValueError as error:
            raise StatementFailed(f"{part_member(number)} {error}") from error
        columns = columns.where(sets.known(columns.runset_ids) & series.known(columns.series_ids))
        columns = Columns(
            columns.times, series(columns.series_ids), sets(columns.runset_ids), columns.values, columns.dts
        )
        samples.copy_samples(connection, columns, edge=edge, compressed=samples.worth_compressing(columns))
        read, written = read + count, written + len(columns)
        tell(read, total)
    return written


class _NewIds:
    """Map from a capsule's ids to new ids, for arrays."""

    def __init__(self, old: npt.NDArray[np.int32], new: npt.NDArray[np.int32]) -> None:
        self._old, self._new = old, new

    @classmethod
    def of(cls, connection: Connection, what: str) -> _NewIds:
        rows = connection.execute(
            "select old, new from bench_staging.new_ids where what = %s order by old", (what,)
        ).fetchall()
        pairs = np.array(rows, np.int32).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def known(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return which of `ids` there are new ones for."""
        return np.isin(ids, self._old)

    def __call__(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the new ids in the place of `ids`, all of which are known."""
        return self._new[np.searchsorted(self._old, ids)]


def _settle(connection: Connection) -> None:
    """Bring the aggregates and the planner's statistics up to date, once all is written."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # the owner's, whose job does it within seconds
        refresh(connection)
    connection.execute("analyze samples, series, run_sets")
