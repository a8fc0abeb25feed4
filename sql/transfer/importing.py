"""Import of a capsule in one transaction: all of its new runs, or none.

Imported samples belong to resources of their own, so they never mix with local samples. They keep their tags, so the
import needs no tag lock: local runs start and end meanwhile.
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
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.rows import value
from hypergauge.sql.server.session import Session
from hypergauge.sql.transfer import quarantine, staging
from hypergauge.sql.transfer.archive import Manifest, opened, part_member
from hypergauge.sql.transfer.members import refusals
from hypergauge.sql.transfer.parts import unpacked

__all__ = ["Imported", "import_capsule"]

# Time for retries of the whole transaction, after a restart of the server or a conflict with a policy's job.
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes
    ----------
    experiments
        Experiments of the imported runs.
    here
        Number of runs that the database already had, and that stayed unchanged.
    notes
        Notes for the user.
    """

    experiments: tuple[int, ...]
    runs: int
    here: int
    samples: int
    notes: tuple[str, ...] = ()


def import_capsule(
    database: Database, path: Path, into: int | None = None, report: Callable[[int, int], None] = lambda _, __: None
) -> Imported:
    """Import the new runs of the capsule `path`.

    Parameters
    ----------
    into
        Target experiment; by default the runs' original experiment.
    report
        Callback with the number of samples read so far, and the total.

    Raises
    ------
    BadRequest
        The file is damaged, unknown, or from a newer release; a value is out of bounds; or the experiment or a run's position
        in it is taken.
    """
    with opened(path, "capsule") as (archive, manifest), Session(database, _TIMEOUT_SECONDS) as session:
        imported = session(_write, archive, manifest, into, report)
        if imported.runs:
            session(_settle)
        return imported


def _write(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, into: int | None,
    report: Callable[[int, int], None],
) -> Imported:  # fmt: skip
    with refusals(archive), connection.transaction():
        connection.execute(
            "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;"
            "lock table bench_internal.import_lock in exclusive mode"
        )
        imported = _bring_in(connection, archive, manifest, into, report)
        staging.clear(connection)
        return imported


def _bring_in(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, into: int | None,
    report: Callable[[int, int], None],
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
    written = _samples(connection, archive, manifest, report)
    quarantine.settle(connection)
    return Imported(tuple(experiments), total - here, here, written, tuple(notes))


def _samples(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, report: Callable[[int, int], None]
) -> int:
    # This lock keeps the raw cutoff fixed.
    connection.execute("lock table bench_internal.retention in share mode")
    raw_cutoff = retention(connection).raw_cutoff
    series, sets = _NewIds.of(connection, "series"), _NewIds.of(connection, "run set")
    total, read, written = sum(manifest.parts), 0, 0
    for number, count in enumerate(manifest.parts):
        try:
            columns = unpacked(archive.read(part_member(number)), count)
        except ValueError as error:
            raise BadRequest(f"{part_member(number)} {error}") from error
        columns = columns.where(sets.known(columns.runset_ids) & series.known(columns.series_ids))
        columns = Columns(
            columns.times, series(columns.series_ids), sets(columns.runset_ids), columns.values, columns.dts
        )
        samples.copy_samples(connection, columns, raw_cutoff=raw_cutoff, compressed=samples.worth_compressing(columns))
        read, written = read + count, written + len(columns)
        report(read, total)
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
        """Return a mask of the `ids` that have a new id."""
        return np.isin(ids, self._old)

    def __call__(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the new ids for `ids`, all of which must be known."""
        return self._new[np.searchsorted(self._old, ids)]


def _settle(connection: Connection) -> None:
    """Update the aggregates and the planner's statistics after the import."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # the owner's job refreshes within seconds
        refresh(connection)
    connection.execute(f"analyze {value(connection, str, 'select sample_table()')}, series, run_sets".encode())
