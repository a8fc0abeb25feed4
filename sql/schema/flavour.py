"""Flavour of a server, PostgreSQL or TimescaleDB: detected, never configured, and known only to `sql`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psycopg

__all__ = ["Flavour", "Server", "inspect"]


class Flavour(StrEnum):
    """Flavour of the schema."""

    POSTGRESQL = "postgresql"
    TIMESCALEDB = "timescaledb"


@dataclass(frozen=True, slots=True)
class Server:
    """Server with its PostgreSQL version, and its TimescaleDB version if installed."""

    flavour: Flavour
    version: str
    timescaledb: str | None
    license: str | None

    def describe(self) -> str:
        """Return a one-line description."""
        if self.timescaledb is None:
            return f"PostgreSQL {self.version}"
        note = (
            ""
            if self.flavour is Flavour.TIMESCALEDB
            else (
                "; the Apache build has no continuous aggregates and no columnstore, so it is used as plain PostgreSQL"
            )
        )
        return f"PostgreSQL {self.version} with TimescaleDB {self.timescaledb} ({self.license}{note})"


def inspect(connection: psycopg.Connection) -> Server:
    """Return the flavour and versions of the server behind `connection`.

    The Apache build of TimescaleDB counts as PostgreSQL: only the Community build has continuous aggregates,
    columnstore and policies. The setting ``timescaledb.license`` names the build.
    """
    row = connection.execute(
        """
        select current_setting('server_version'),
               (select extversion from pg_extension where extname = 'timescaledb'),
               current_setting('timescaledb.license', true)
        """
    ).fetchone()
    assert row is not None
    version, extension, edition = row
    community = extension is not None and edition == "timescale"
    return Server(
        flavour=Flavour.TIMESCALEDB if community else Flavour.POSTGRESQL,
        version=str(version).split()[0],
        timescaledb=extension,
        license=edition if extension is not None else None,
    )
