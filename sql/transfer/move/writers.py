"""Programs that write into a database."""

from __future__ import annotations

from hypergauge.core.errors import BadRequest
from hypergauge.core.system.polling import wait_until
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection

__all__ = ["refuse_writers", "written_state"]

# The server ends a connection some time after its client has closed it.
_LEAVING_SECONDS = 3.0


def refuse_writers(connection: Connection) -> None:
    """Refuse a database into which other programs may write.

    These are live collectors and runs, by their leases, and connections of roles that may write.

    Raises
    ------
    BadRequest
        There are such programs. The message names them.
    """
    wait_until(lambda: not _writers(connection), _LEAVING_SECONDS)
    if writers := _writers(connection):
        raise BadRequest(
            f"the source is in use, and what is written there from now on would not move: {'; '.join(writers)}. Stop them "
            "(`bench down` on each host, a scheduler, MLflow, psql), and retry"
        )


def written_state(connection: Connection) -> object:
    """Return a value that changes with the writes of collectors and schedulers."""
    return connection.execute(
        """
        select (select array[count(*)::text, max(written_at)::text] from bench.batches),
               (select array[count(*)::text, max(started_at)::text, max(ended_at)::text] from bench.runs),
               (select version from bench_internal.tag_version)
        """
    ).fetchone()


def _writers(connection: Connection) -> list[str]:
    connection.execute("select pg_stat_clear_snapshot()")  # or a transaction sees the same connections each time
    rows = connection.execute(
        """
        select format('the collector with pid %%s on %%s', pid, host) from (
            select host, pid from bench_internal.collectors where lease_until > now()
            union select collector_host, collector_pid from bench.targets where lease_until > now()) x
        union all
        select format('the run %%s on %%s', left(run_id, 8), host) from bench.runs where status = 'running' and lease_until > now()
        union all
        select format('%%s connection%%s of %%s (%%s)', count(*), case when count(*) > 1 then 's' end, usename,
                      coalesce(nullif(application_name, ''), 'no name'))
        from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and usesysid is not null
          -- TimescaleDB's jobs only refresh, compress and delete. Users without rights see no type, but the name.
          and coalesce(backend_type, 'client backend') = 'client backend'
          and application_name not like 'TimescaleDB Background Worker%%' and application_name <> all(%s)
          and (has_table_privilege(usesysid, 'bench.runs', 'insert')
               or has_table_privilege(usesysid, to_regclass('mlflow.runs'), 'insert'))
        group by usename, application_name
        order by 1
        """,
        (_jobs(connection),),
    ).fetchall()
    return [text for (text,) in rows]


def _jobs(connection: Connection) -> list[str]:
    """Return the names under which TimescaleDB's background jobs connect."""
    if inspect(connection).timescaledb is None:
        return []
    rows = connection.execute("select left(application_name, 63) from timescaledb_information.jobs").fetchall()
    return [name for (name,) in rows]
