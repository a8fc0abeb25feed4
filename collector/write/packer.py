"""Packing of closed hours in plain PostgreSQL, an hour after the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.server.database import Database

__all__ = ["REST", "Packer"]

# Seconds of rest for a second of work. Half a core packs more samples than a collector writes, and writing goes first.
REST = 1.0
_HOUR = timedelta(hours=1)


class Packer:
    """Work of a periodic thread: it packs the samples of each closed hour.

    Parameters
    ----------
    grace
        Time between the end of an hour and its packing, for late samples. Later ones are packed with the next hour.
    now
        Clock.
    """

    def __init__(
        self, database: Database, *, grace: timedelta = timedelta(minutes=10),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._database, self._grace, self._now = database, grace, now

    def __call__(self) -> float:
        """Pack all closed hours, and return the seconds until the next one is due."""
        with self._database.session() as connection:
            aggregates.pack(connection, self._now() - self._grace, rest=REST)
        at = self._now() - self._grace
        return (at.replace(minute=0, second=0, microsecond=0) + _HOUR - at).total_seconds()
