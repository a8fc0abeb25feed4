"""Flavour of a server, PostgreSQL or TimescaleDB. It is detected, never configured; only `sql` knows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psycopg

__all__ = ["Flavour", "Server", "inspect"]


class Flavour(StrEnum):
    """The two flavours of the one schema."""

    POSTGRESQL = "postgresql"
    TIMESCALEDB = "timescaledb"


@dataclass(frozen=True, slots=True)
class Server:
    """Server: its PostgreSQL version, and its TimescaleDB version where it has one."""

    flavour: Flavour
    version: str
    timescaledb: str | None
    licence: str | None

    def describe(self) -> str:
        """Return one line for people."""
        if self.timescaledb is None:
            return f"PostgreSQL {self.version}"
        note = (
            ""
            if self.flavour is Flavour.TIMESCALEDB
            else (
                "; the Apache build has no continuous aggregates and no columnstore, so it is used as plain PostgreSQL"
            )
        )
        return f"PostgreSQL {self.version} with TimescaleDB {self.timescaledb} ({self.licence}{note})"


def inspect(connection: psycopg.Connection) -> Server:
    """Look at the server behind `connection`.

    The Apache build of TimescaleDB counts as PostgreSQL: continuous aggregates, columnstore and policies are in the
    Community build alone. Which one it is says ``timescaledb.license``.
    """
    row = connection.execute(
        """
        select current_setting('server_version'),
               (select extversion from pg_extension where extname = 'timescaledb'),
               current_setting('timescaledb.license', true)
        """
    ).fetchone()
    assert row is not None
    version, extension, licence = row
    community = extension is not None and licence == "timescale"
    return Server(
        flavour=Flavour.TIMESCALEDB if community else Flavour.POSTGRESQL,
        version=str(version).split()[0],
        timescaledb=extension,
        licence=licence if extension is not None else None,
    )
