"""Leases of live collectors, and the collectors that share targets."""

from __future__ import annotations

from dataclasses import dataclass

from hypergauge.core.config.settings import LEASE_SECONDS
from hypergauge.sql.server.database import Connection

__all__ = ["Peer", "leave_collectors", "live_collectors", "renew_collector"]


@dataclass(frozen=True, slots=True)
class Peer:
    """Live collector, with its host and process."""

    source: str
    host: str
    pid: int


def renew_collector(connection: Connection, peer: Peer, targets: str, lease: float = LEASE_SECONDS) -> None:
    """Renew a collector's lease; `targets` is a digest of its configured targets."""
    connection.execute(
        """
        with expired as (delete from collectors where lease_until < now() - interval '1 day')
        insert into collectors (source, host, pid, targets, lease_until)
        values (%s, %s, %s, %s, now() + make_interval(secs => %s))
        on conflict (source) do update set host = excluded.host, pid = excluded.pid, targets = excluded.targets,
            lease_until = excluded.lease_until
        """,
        (peer.source, peer.host, peer.pid, targets, lease),
    )


def live_collectors(connection: Connection, targets: str) -> list[Peer]:
    """Return the live collectors with these configured targets."""
    rows = connection.execute(
        "select source, host, pid from collectors where targets = %s and lease_until > now() order by source",
        (targets,),
    ).fetchall()
    return [Peer(*row) for row in rows]


def leave_collectors(connection: Connection, source: str) -> None:
    """End a collector's lease, so that other collectors take its targets at once."""
    connection.execute("delete from collectors where source = %s", (source,))
