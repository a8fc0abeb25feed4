"""Server settings that slow our queries and that the schema cannot set itself."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from hypergauge.sql.server.database import Connection

__all__ = ["CostlySetting", "costly_settings"]


@dataclass(frozen=True, slots=True)
class CostlySetting:
    """A setting, what it costs, and the command that mends it."""

    setting: str
    value: str
    cost: str
    remedy: str

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.setting} = {self.value}: {self.cost}; {self.remedy}"


def costly_settings(connection: Connection) -> list[CostlySetting]:
    """Return the settings under which other connections of this user, such as Grafana's, work."""
    return [setting for setting in (_jit(connection), _locks(connection)) if setting is not None]


def _setting(connection: Connection, name: str) -> str:
    row = connection.execute("select reset_val from pg_settings where name = %s", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def _jit(connection: Connection) -> CostlySetting | None:
    if _setting(connection, "jit") != "on":
        return None
    # Only where it is on the server tells whether it has a compiler at all.
    with connection.transaction():
        connection.execute("set local jit = on")
        available = connection.execute("select pg_jit_available()").fetchone() == (True,)
    if not available:
        return None
    return CostlySetting(
        "jit",
        "on",
        "compiling takes seconds where queries take milliseconds, for all that connect but `bench`",
        f"as the owner of the database: alter database {_name(connection)} set jit = off",
    )


def _locks(connection: Connection) -> CostlySetting | None:
    """Look whether a backup, which locks every chunk and its indexes at once, finds room for its locks."""
    row = connection.execute(
        """
        select current_setting('max_locks_per_transaction')::bigint,
               current_setting('max_locks_per_transaction')::bigint
               * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
               (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname in ('bench', '_timescaledb_internal') and c.relkind in ('r', 'i'))
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
