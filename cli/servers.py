"""Databases of a command: ``BENCH_DSN``, and ``BENCH_READ_DSN`` for reading, perhaps a replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.replica import Standing

__all__ = ["Server"]


@dataclass(frozen=True, slots=True)
class Server:
    """Database server, or the reason why it does not answer.

    Attributes
    ----------
    says
        What it is, in words.
    """

    up: bool
    says: str
    flavour: Flavour | None = None
    standing: Standing | None = None

    @classmethod
    def of(cls, connection: Connection) -> Server:
        """Return what is behind a connection."""
        server = inspect(connection)
        return cls(True, server.describe(), server.flavour, replica.standing(connection))

    @classmethod
    def find(cls, settings: Settings) -> Server:
        """Look at the database that is written to."""
        try:
            with Database(settings) as database, database.session() as connection:
                return cls.of(connection)
        except BenchError as error:
            return cls(False, str(error))

    def and_primary(self, settings: Settings) -> tuple[Server, Server | None]:
        """Return the database, and this one as what is read from, where that is another one."""
        if settings.read_dsn is None:
            return self, None
        return (self.find(settings) if settings.dsn else self), self

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written to JSON."""
        return {"up": self.up, "server": self.says if self.up else None, "reason": None if self.up else self.says}

    def reads_as_dict(self) -> dict[str, Any]:
        """Return the same of what is read from, with how far it is behind."""
        return {
            **self.as_dict(),
            "standby": self.standing and self.standing.standby,
            "following": self.standing and self.standing.following,
            "behind_seconds": self.standing and self.standing.behind,
        }

    def describe_reads(self, primary: Server) -> tuple[bool, str]:
        """Return whether all is well with what is read from in the place of `primary`, and what it is."""
        if self.standing is None:
            return False, self.says
        words = f"{self.says}, {self.standing.describe()}"
        if primary.standing and primary.standing.system != self.standing.system:
            return False, f"{words}; it is no copy of what BENCH_DSN leads to: what is written there is not seen here"
        well = not self.standing.standby or (self.standing.following and not replica.is_late(self.standing.behind))
        return well, words
