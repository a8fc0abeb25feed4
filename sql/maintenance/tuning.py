"""Server settings that slow our queries and that the schema cannot set itself."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

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
        return f"{self.setting} = {self.value}: {self.cost}; {self.remedy}"


def costly_settings(connection: Connection) -> list[CostlySetting]:
    """Return the costly settings of this user's other connections, such as Grafana's."""
    return [setting for setting in (_jit(connection), _locks(connection)) if setting is not None]


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
    """Check the lock table for a backup, which locks every chunk and its indexes at once."""
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
    if relations * 2 < room:
        return None
    return CostlySetting(
        "max_locks_per_transaction",
        str(each),
        f"a query or backup that touches all {relations} tables and indexes of chunks may run out of the {room} locks",
        f"alter system set max_locks_per_transaction = {2 * each}, and restart",
    )


def _name(connection: Connection) -> str:
    return psycopg.sql.Identifier(connection.info.dbname).as_string(connection)
