"""Status of the database servers: ``BENCH_DSN``, and ``BENCH_READ_DSN`` for reads, which may be a replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.listing import counted
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.replica import ReplicationState
from hypergauge.sql.server.restarts import Restart

__all__ = ["ServerStatus"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Status of a database server, or the reason why it does not answer.

    Attributes
    ----------
    text
        Description of the server, or the reason.
    restarts
        Starts of the embedded server after it had died, oldest first.
    """

    up: bool
    text: str
    flavour: Flavour | None = None
    replication: ReplicationState | None = None
    restarts: Sequence[Restart] = ()

    @classmethod
    def of(cls, connection: Connection, restarts: Sequence[Restart] = ()) -> ServerStatus:
        """Return the server of a connection."""
        server = inspect(connection)
        return cls(True, server.describe(), server.flavour, replica.replication(connection), restarts)

    @classmethod
    def find(cls, settings: Settings) -> ServerStatus:
        """Open the primary database, and return its server."""
        try:
            with Database(settings) as database, database.session() as connection:
                return cls.of(connection, database.restarts)
        except BenchError as error:
            return cls(False, str(error))

    def and_primary(self, settings: Settings) -> tuple[ServerStatus, ServerStatus | None]:
        """Return the primary, and this server if it is another one, for reads only."""
        if settings.read_dsn is None:
            return self, None
        return (self.find(settings) if settings.dsn else self), self

    def as_dict(self) -> dict[str, Any]:
        """Return the server for JSON."""
        return {
            "up": self.up,
            "server": self.text if self.up else None,
            "reason": None if self.up else self.text,
            "restarts": [asdict(restart) for restart in self.restarts],
        }

    def describe_restarts(self) -> str:
        """Return how often and why the server was started again; empty if it was not."""
        if not self.restarts:
            return ""
        last = self.restarts[-1]
        return (
            f"the database was started again {counted(len(self.restarts), 'time')}, last at "
            f"{datetime.fromtimestamp(last.at).astimezone():%Y-%m-%d %H:%M:%S}: {last.reason}"
        )

    def reads_as_dict(self) -> dict[str, Any]:
        """Return the server of reads for JSON, with its lag."""
        return {
            **self.as_dict(),
            "standby": self.replication and self.replication.standby,
            "following": self.replication and self.replication.following,
            "behind_seconds": self.replication and self.replication.behind,
        }

    def describe_reads(self, primary: ServerStatus) -> tuple[bool, str]:
        """Return whether reads may go to this server in place of `primary`, and its description."""
        if self.replication is None:
            return False, self.text
        text = f"{self.text}, {self.replication.describe()}"
        if primary.replication and primary.replication.system != self.replication.system:
            return False, f"{text}; it is not a replica of the server of BENCH_DSN: new runs are not visible here"
        well = not self.replication.standby or (
            self.replication.following and not replica.is_late(self.replication.behind)
        )
        return well, text
