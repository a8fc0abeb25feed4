"""Server settings that slow our queries and that the schema cannot set itself."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from hypergauge.core.pages import Page
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import MOST_LOCKS
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value

__all__ = ["CostlySetting", "costly_settings"]


@dataclass(frozen=True, slots=True)
class CostlySetting:
    """Costly server setting, with its cost and the command that fixes it."""

    setting: str
    value: str
    cost: str
    remedy: str

    def describe(self) -> str:
        """Return a one-line description."""
        return Page.DATABASE_SETTINGS.after(f"{self.setting} = {self.value}: {self.cost}; {self.remedy}")


def costly_settings(connection: Connection) -> list[CostlySetting]:
    """Return the costly settings of this user's other connections, such as Grafana's, and of background jobs."""
    found = (_jit(connection), _locks(connection), _workers(connection))
    return [setting for setting in found if setting is not None]


def _setting(connection: Connection, name: str) -> str:
    return value(connection, str, "select reset_val from pg_settings where name = %s", (name,))


def _jit(connection: Connection) -> CostlySetting | None:
    if _setting(connection, "jit") != "on":
        return None
    # The server reports the availability of a compiler only while jit is on.
    with connection.transaction():
        connection.execute("set local jit = on")
        available = connection.execute("select pg_jit_available()").fetchone() == (True,)
    if not available:
        return None
    return CostlySetting(
        "jit",
        "on",
        "JIT compilation takes seconds for queries of milliseconds, for all clients except `bench`",
        f"as the owner of the database: alter database {_name(connection)} set jit = off",
    )


def _locks(connection: Connection) -> CostlySetting | None:
    """Check the lock table for a migration, and for a backup, which locks every chunk and its indexes at once."""
    row = connection.execute(
        """
        select current_setting('max_locks_per_transaction')::bigint,
               current_setting('max_locks_per_transaction')::bigint
               * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
               (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname in ('bench', 'bench_internal', '_timescaledb_internal') and c.relkind in ('r', 'i'))
        """
    ).fetchone()
    assert row is not None
    each, room, relations = row
    if relations * 2 + MOST_LOCKS < room:
        return None
    return CostlySetting(
        "max_locks_per_transaction",
        str(each),
        f"a migration, or a backup that touches all {relations} tables and indexes of chunks, may run out of the {room} locks",
        f"alter system set max_locks_per_transaction = {2 * each}, and restart",
    )


def _workers(connection: Connection) -> CostlySetting | None:
    """Check that TimescaleDB has workers for due jobs: without one, a job neither starts nor is recorded as failed.

    TimescaleDB's launcher starts a missing scheduler in each poll, so a job that is due for two polls waits in vain.
    """
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return None
    row = connection.execute(
        """
        with schedulers as (
            select datname from pg_stat_activity where application_name = 'TimescaleDB Background Worker Scheduler')
        select (select count(*) from schedulers), exists (select from schedulers where datname = current_database()),
               current_setting('max_worker_processes')::int, current_setting('timescaledb.max_background_workers')::int,
               current_setting('timescaledb.restoring')::boolean
        where not pg_is_in_recovery() and exists (
            select from timescaledb_information.jobs j left join _timescaledb_internal.bgw_job_stat s using (job_id)
            where j.scheduled and coalesce(s.last_start <= s.last_finish, true)  -- and does not run
              and greatest(s.next_start, pg_postmaster_start_time(), (select max(applied_at) from bench_internal.migrations))
                  < now() - 2 * interval '1 ms' * coalesce(current_setting('timescaledb.bgw_launcher_poll_time', true), '60000')::int)
        """
    ).fetchone()
    return None if row is None else _missing_workers(*row)


def _missing_workers(schedulers: int, has_one: bool, slots: int, workers: int, restoring: bool) -> CostlySetting | None:
    """Return the setting that keeps due jobs waiting, if any.

    Parameters
    ----------
    schedulers
        Running schedulers, one for each database.
    has_one
        Whether this database has one of them.
    slots, workers
        Workers of the server, and those of them that TimescaleDB may use.
    restoring
        Whether a restore of this database has not ended.
    """
    cost = "TimescaleDB has no worker for the jobs of this database, so aggregates and compression lag"
    if restoring:
        return CostlySetting("timescaledb.restoring", "on", cost, "as a superuser: select timescaledb_post_restore()")
    if workers < schedulers + 2:  # its launcher, and another scheduler or the first job
        more = f"alter system set timescaledb.max_background_workers = {max(16, 2 * workers)}, and restart the server"
        return CostlySetting("timescaledb.max_background_workers", str(workers), cost, more)
    if has_one:
        return None
    more = f"alter system set max_worker_processes = {max(32, 2 * slots)}, and restart the server"
    if slots >= schedulers + 3:  # also PostgreSQL's launcher of logical replication
        more = f"as a superuser: select _timescaledb_functions.start_background_workers(); if that is in vain, {more}"
    return CostlySetting("max_worker_processes", str(slots), cost, more)


def _name(connection: Connection) -> str:
    return psycopg.sql.Identifier(connection.info.dbname).as_string(connection)
