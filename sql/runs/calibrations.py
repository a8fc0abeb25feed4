"""Calibrations: what exporters cost a training on a host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.types.json import Jsonb

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["Calibration", "calibrations", "store_calibrations"]

_LEAST_REPETITIONS = 4
# Largest half width of an interval.
_WIDEST = 0.05


@dataclass(frozen=True, slots=True)
class Calibration:
    """Cost of a choice of exporters, against the same training without an exporter.

    Attributes
    ----------
    listeners
        The choice as in an experiment file; empty for all exporters.
    exporters
        Seconds between scrapes by exporter that measured.
    slowdown, low, high
        Relative change of the time for the same work, with its 95 % interval.
    cpu_share
        Share of the host's cores that exporters and collector took.
    memory_bytes
        Their resident memory.
    """

    host: str
    command: str
    listeners: str
    exporters: Mapping[str, float] = field(hash=False)
    repetitions: int
    slowdown: float
    low: float
    high: float
    cpu_share: float
    memory_bytes: float

    @property
    def is_narrow(self) -> bool:
        """Return whether its interval says something: that of few repetitions is wide, or narrow by chance."""
        return self.repetitions >= _LEAST_REPETITIONS and self.high - self.low <= 2 * _WIDEST

    def covers(self, intervals: Mapping[str, float]) -> bool:
        """Return whether it measured at least as much as exporters at these intervals do."""
        return all(self.exporters.get(name, float("inf")) <= 1.05 * seconds for name, seconds in intervals.items())


def store_calibrations(connection: Connection, found: Sequence[Calibration]) -> None:
    """Store calibrations; a later one of the same host, command and choice replaces an earlier one."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into calibrations (host, command, listeners, exporters, repetitions, slowdown, low, high, cpu_share,
                                      memory_bytes)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            on conflict (host, command, listeners) do update set
                exporters = excluded.exporters, repetitions = excluded.repetitions, slowdown = excluded.slowdown,
                low = excluded.low, high = excluded.high, cpu_share = excluded.cpu_share,
                memory_bytes = excluded.memory_bytes, calibrated_at = now()
            """,
            [
                (one.host, one.command, one.listeners, Jsonb(dict(one.exporters)), one.repetitions, one.slowdown, one.low,
                 one.high, one.cpu_share, one.memory_bytes)
                for one in found
            ],
        )  # fmt: skip


def calibrations(connection: Connection, hosts: Collection[str]) -> list[Calibration]:
    """Return the calibrations of hosts, the newest first."""
    return records(
        connection,
        Calibration,
        """
        select host, command, listeners, exporters, repetitions, slowdown, low, high, cpu_share, memory_bytes
        from calibrations where host = any(%s) order by calibrated_at desc, command, listeners
        """,
        (list(hosts),),
    )
