"""Move of everything in a database to another one, of either flavour.

The source is read in one snapshot and never changed. Each part is copied in one transaction together with its mark, so the
same command continues after an interruption at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import psycopg

from hypergauge.core.errors import BadRequest, BenchError, NoData
from hypergauge.core.system.polling import wait_until
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import applied, migrate, pending
from hypergauge.sql.server.database import Connection, Database, StatementFailed, lost
from hypergauge.sql.server.rows import value
from hypergauge.sql.transfer.backup import MLFLOW, definitions
from hypergauge.sql.transfer.move import samples, tables
from hypergauge.sql.transfer.move.checksums import Checksum
from hypergauge.sql.transfer.move.progress import NEW_DATABASE, Part, Progress, begun, refuse_content
from hypergauge.sql.transfer.move.writers import refuse_writers, written_state
from hypergauge.sql.transfer.snapshot import snapshot

__all__ = ["Differs", "Moved", "move"]

# A killed command's statement ends within the check interval; its commit may take longer.
_LOCK_SECONDS = 20.0
_AGAIN = "the same command continues where this one ended"
_SESSION = """
    set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set extra_float_digits = 1;
    set bytea_output = 'hex'; set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0;
    set work_mem = '64MB';
    set client_connection_check_interval = '1s'     -- the statements of a killed command end with it
"""


class Differs(BenchError):
    """The copy differs from the source."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Result of a move.

    Attributes
    ----------
    server
        Description of the target's server.
    earlier
        End of the move, if an earlier command has finished it.
    """

    server: str
    runs: int = 0
    samples: int = 0
    mlflow: int = 0
    earlier: datetime | None = None


def move(
    source: Database, target: Database, *, plain: bool = False, notify: Callable[[str], None] = lambda _: None
) -> Moved:
    """Copy everything in `source` to `target`, and compare both. Both are held already.

    Parameters
    ----------
    plain
        Accept plain PostgreSQL on a server that has TimescaleDB.

    Raises
    ------
    BadRequest
        Programs write into the source, the target is not empty, or the source has another schema version.
    Differs
        The copy differs. The next move copies the differing samples again.
    """
    with source.session() as here, target.session() as there:
        try:
            return _Move(source, here, there, plain, notify).run()
        except psycopg.errors.DiskFull as error:
            raise StatementFailed(
                f"no space is left on a server ({error.diag.message_primary}): free some; {_AGAIN}"
            ) from error
        except lost as error:
            if not (here.broken or there.broken):
                raise
            raise StatementFailed(f"the connection to a server is lost ({str(error).strip()}): {_AGAIN}") from error


class _Move:
    """Move between two connections in autocommit mode."""

    def __init__(
        self, source: Database, here: Connection, there: Connection, plain: bool, notify: Callable[[str], None]
    ) -> None:
        self._source, self._here, self._there, self._plain, self._notify = source, here, there, plain, notify

    def run(self) -> Moved:
        """Move, and return the result."""
        if _place(self._here) == _place(self._there):
            raise BadRequest("the source and the target are the same database")
        self._check_source()
        self._open_target()
        server = inspect(self._there).describe()
        with snapshot(self._here, "share update exclusive") as moment:
            state = written_state(self._here)
            cutoff = value(self._here, str, "select raw_cutoff::text from bench_internal.retention")
            self._progress = Progress(self._there, _identity(self._here), cutoff)
            if self._progress.finished_at is not None:
                return Moved(server, earlier=self._progress.finished_at)
            expected = self._copy(moment)
            keep_raw = aggregates.retention(self._here).keep_raw
        self._notify("Refreshing the aggregates …")
        # Plain PostgreSQL has nothing to refresh, and would delete samples that TimescaleDB keeps with their chunk.
        if inspect(self._there).flavour is Flavour.TIMESCALEDB:
            aggregates.maintain(self._there)
        self._there.execute("analyze")
        self._notify("Verifying …")
        self._verify(expected)
        refuse_writers(self._here)
        if written_state(self._here) != state:
            raise Differs(f"the source was written to meanwhile; {_AGAIN}, and copies what has changed")
        self._progress.finish(keep_raw)
        rows = {part: checksum.rows for part, checksum in expected.items()}
        return Moved(
            server,
            rows.get(Part("bench.runs"), 0),
            sum(count for part, count in rows.items() if part.low is not None),
            sum(count for part, count in rows.items() if part.table.startswith(f"{MLFLOW}.")),
        )

    def _check_source(self) -> None:
        self._here.execute(_SESSION)
        if not applied(self._here):
            raise NoData("there is no schema `bench` in this database, so nothing to move")
        if waiting := pending(self._here):
            raise BadRequest(
                f"the source lacks {len(waiting)} migration{'s' if len(waiting) > 1 else ''} of this release: run `bench db migrate` first"
            )
        if value(self._here, bool, "select exists (select from bench_internal.retention where moved_from is not null)"):
            raise BadRequest("the source has not finished the deletion of old samples: run `bench db maintain` first")
        refuse_writers(self._here)

    def _open_target(self) -> None:
        there = self._there
        there.execute(_SESSION)
        free = "select pg_try_advisory_lock(hashtext('bench.move'))"
        if not wait_until(lambda: there.execute(free).fetchone() == (True,), _LOCK_SECONDS):
            raise BadRequest("another move writes into the target")
        if not begun(there):
            refuse_content(there)
        extension.create(there)
        if not self._plain and not applied(there) and (missed := extension.advice(there)):
            raise BadRequest(f"{missed}. Then retry; --plain moves into plain PostgreSQL")
        migrate(there)
        if inspect(there).flavour is Flavour.TIMESCALEDB:
            there.execute("select pg_advisory_lock(hashtext('bench.refresh'))")  # jobs wait for the end of the move

    def _copy(self, moment: str) -> dict[Part, Checksum]:
        """Copy what is missing, and return the checksums of the source."""
        done = self._progress.parts()
        found = self._found()
        expected = {Part(name): relation.checksum(self._here) for name, relation in found.items()}
        self._refuse_used(done, found)
        expected |= self._copy_samples(done)
        for name, relation in found.items():
            part = Part(name)
            if relation.below_cutoff and done.get(part) != expected[part]:
                if part in done:
                    raise BadRequest(f"aggregates of the source below the raw cutoff have changed; {NEW_DATABASE}")
                self._notify("Copying the aggregates of deleted samples …")
                with self._there.transaction():
                    tables.copy_below_cutoff(self._here, self._there, relation)
                    self._progress.mark(part, expected[part])
        others = {
            part: checksum
            for part, checksum in expected.items()
            if part.low is None and not found[part.table].below_cutoff
        }
        if any(done.get(part) != checksum for part, checksum in others.items()):
            self._notify("Copying runs, series and all other tables …")
            scripts = (
                definitions(self._source, moment) if any(r.table.schema == MLFLOW for r in found.values()) else None
            )
            with self._there.transaction():
                tables.copy_tables(self._here, self._there, found, scripts)
                for part, checksum in others.items():
                    self._progress.mark(part, checksum)
        return expected

    def _found(self) -> dict[str, tables.Relation]:
        """Return the source's tables, without those that are no table of hypergauge's."""
        here, there = tables.found_tables(self._here), tables.found_tables(self._there)
        unknown = {name for name, one in here.items() if name not in there and one.table.schema != MLFLOW}
        for name in sorted(unknown):
            self._notify(f"left out: {name} is not a table of hypergauge's")
        return {name: relation for name, relation in here.items() if name not in unknown}

    def _refuse_used(self, done: dict[Part, Checksum | None], found: dict[str, tables.Relation]) -> None:
        """Refuse a target that another program has used since the interruption."""
        there = tables.found_tables(self._there)
        for name, relation in there.items():
            if name not in found or relation.below_cutoff or name in _FILLED_BY_MIGRATIONS:
                continue
            now, marked = relation.checksum(self._there), done.get(Part(name))
            if now != (marked or Checksum(0, 0)) and not (marked is None and relation.table.schema == MLFLOW):
                raise BadRequest(f"the target was used since the interrupted move ({name} has changed); {NEW_DATABASE}")

    def _copy_samples(self, done: dict[Part, Checksum | None]) -> dict[Part, Checksum]:
        counts = samples.hours(self._here)
        wanted = samples.slices(counts)
        total, copied, expected = sum(counts.values()), 0, {}
        for part in [one for one in done if one.low is not None and one not in wanted]:
            self._delete(part)  # the source has changed, and so have its slices
        for part in wanted:
            expected[part] = checksum = samples.checksum(self._here, part)
            copied += checksum.rows
            if done.get(part) == checksum:
                continue
            with self._there.transaction():
                if part in done:
                    samples.delete_slice(self._there, part)
                samples.copy_slice(self._here, self._there, part)
                self._progress.mark(part, checksum)
            samples.pack(self._there)
            self._notify(f"{part}: {copied:,} of {total:,} samples")
        return expected

    def _delete(self, part: Part) -> None:
        with self._there.transaction():
            samples.delete_slice(self._there, part)
            self._progress.forget(part)

    def _verify(self, expected: dict[Part, Checksum]) -> None:
        found = tables.found_tables(self._there)
        differing = []
        for part, checksum in expected.items():
            if part.low is not None:
                now = samples.checksum(self._there, part)
            else:
                now = found[part.table].checksum(self._there) if part.table in found else Checksum(0, 0)
            if now != checksum:
                differing.append(f"{part} ({checksum.rows} rows in the source, {now.rows} in the target)")
                if part.low is not None:
                    self._progress.mark(part, None)
        extra = sum(samples.hours(self._there).values()) - sum(one.rows for part, one in expected.items() if part.low)
        if not differing and extra:
            differing.append(f"{samples.SAMPLES} ({extra} rows outside the times of the source)")
        if differing:
            again = f"{_AGAIN}, and copies differing samples again. If other tables differ, {NEW_DATABASE}"
            raise Differs(f"the copy differs in {'; '.join(differing)}. {again}")


# Rows are there before a move, so only the final comparison checks them.
_FILLED_BY_MIGRATIONS = frozenset({"bench.metrics", "bench_internal.tag_version"})


def _identity(connection: Connection) -> str:
    """Return an identity of the database that survives restarts, but no new schema."""
    return value(
        connection,
        str,
        """
        select concat_ws('/', (select system_identifier from pg_control_system()),
                         (select oid from pg_database where datname = current_database()),
                         (select extract(epoch from min(applied_at)) from bench_internal.migrations))
        """,
    )


def _place(connection: Connection) -> object:
    """Return the running server and the database in it."""
    return connection.execute(
        "select pg_postmaster_start_time(), oid from pg_database where datname = current_database()"
    ).fetchone()
