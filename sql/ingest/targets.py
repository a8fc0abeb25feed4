"""Targets in the database: registration, leases, state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from hypergauge.core.config.settings import LEASE_SECONDS
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, value

__all__ = [
    "ClockOffset",
    "Holder",
    "TargetRow",
    "TargetState",
    "claim_targets",
    "clock_offsets",
    "find_target",
    "held_since",
    "holders",
    "register_target",
    "release_targets",
    "report_targets",
    "unmeasured_hosts",
]

# Largest clock offset without a warning: a tenth of a scrape interval.
_CLOCK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Target in the database.

    Attributes
    ----------
    says_host
        Whether the target's labels set `host`. That value then overrides the host label of the exposition.
    """

    host: str
    listener: str
    instance: str
    url: str
    says_host: bool = False


@dataclass(frozen=True, slots=True)
class TargetState:
    """State of a target.

    Attributes
    ----------
    up
        Whether the last scrape succeeded; ``None`` before the first scrape.
    last_seen
        Time of the last successful scrape, in Unix seconds.
    clock_offset, clock_uncertainty
        Seconds by which the target's clock is ahead, and their uncertainty; ``None`` if unknown.
    error
        Error of the last scrape; empty after a success.
    """

    up: bool | None = None
    last_seen: float | None = None
    clock_offset: float | None = None
    clock_uncertainty: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """Collector that leases a target, with the remaining seconds of its lease.

    Attributes
    ----------
    of_the_site
        Whether the collector scrapes the target at another address than ours. A site-wide collector then measures the
        host, and ours leaves the target to it.
    """

    host: str
    pid: int
    seconds: float
    of_the_site: bool


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of a host's clock from its collector's clock, in seconds."""

    host: str
    offset: float
    uncertainty: float

    @property
    def is_off(self) -> bool:
        """Whether the clock is off beyond doubt."""
        return abs(self.offset) - self.uncertainty > _CLOCK_SECONDS


def register_target(connection: Connection, *, host: str, listener: str, instance: str, url: str) -> int:
    """Return the id of a target, created if new. Our own exporters keep the id when their port changes."""
    return value(
        connection,
        int,
        """
        insert into targets (host, listener, instance, url) values (%s, %s, %s, %s)
        on conflict (host, listener, instance) do update set url = excluded.url
        returning target_id
        """,
        (host, listener, instance, url),
    )


def find_target(connection: Connection, source: str, target: TargetRow) -> int | None:
    """Return the id of a target that the collector `source` scraped without a lease, created if new.

    Return ``None`` if another collector leases the target and so stores the same samples.
    """
    row = connection.execute(
        """
        with made as (
            insert into targets (host, listener, instance, url, says_host)
            values (%(host)s, %(listener)s, %(instance)s, %(url)s, %(says_host)s)
            on conflict (host, listener, instance) do update set host = excluded.host
            returning target_id, collector is distinct from %(source)s and lease_until > now()
                      or scraped_elsewhere(host, listener, instance, %(source)s) as elsewhere
        )
        select case when elsewhere then null else target_id end from made
        """,
        {**asdict(target), "source": source},
    ).fetchone()
    assert row is not None
    return None if row[0] is None else int(row[0])


def claim_targets(
    connection: Connection,
    source: str,
    host: str,
    pid: int,
    targets: Sequence[TargetRow],
    lease: float = LEASE_SECONDS,
) -> list[int | None]:
    """Register and lease targets. Return their ids in the same order, ``None`` for a target that another collector leases.

    Parameters
    ----------
    source
        Unique name of the collector, the same after a restart.
    host, pid
        Host and process of the collector, for display.
    targets
        Targets, unique by host, listener and instance.
    lease
        Seconds until another collector may take over. A restarted collector resumes its own targets at once.
    """
    names = ("host", "listener", "instance", "url", "says_host")
    columns = {f"{name}s": [getattr(one, name) for one in targets] for name in names}
    return column(
        connection,
        """
        with wanted as (
            select * from unnest(%(hosts)s::text[], %(listeners)s::text[], %(instances)s::text[], %(urls)s::text[],
                                 %(says_hosts)s::bool[])
                with ordinality as w(host, listener, instance, url, says_host, ord)
        ), claimed as (
            insert into targets as t (host, listener, instance, url, says_host, collector, collector_host, collector_pid,
                                      held_since, lease_until)
            select host, listener, instance, url, says_host, %(source)s, %(host)s, %(pid)s, now(),
                   now() + make_interval(secs => %(lease)s)
            from wanted where not scraped_elsewhere(host, listener, instance, %(source)s)
            order by host, listener, instance  -- the same order for all, so that none waits for one who waits for it
            on conflict (host, listener, instance) do update set
                held_since = case when t.collector = excluded.collector then t.held_since else now() end,
                url = excluded.url, says_host = excluded.says_host, collector = excluded.collector,
                collector_host = excluded.collector_host, collector_pid = excluded.collector_pid,
                lease_until = excluded.lease_until, down_since = null
            where t.collector = excluded.collector or t.lease_until is null or t.lease_until < now()
            returning target_id, host, listener, instance
        )
        select target_id from wanted left join claimed using (host, listener, instance) order by ord
        """,
        {**columns, "source": source, "host": host, "pid": pid, "lease": lease},
    )


def holders(connection: Connection, targets: Sequence[TargetRow]) -> dict[tuple[str, str, str], Holder]:
    """Return the collectors that lease the targets, by host, listener and instance."""
    keys = [[getattr(one, name) for one in targets] for name in ("host", "listener", "instance")]
    rows = connection.execute(
        """
        select w.host, w.listener, w.instance, t.collector_host, t.collector_pid,
               extract(epoch from t.lease_until - now())::float8, t.instance <> w.instance
        from unnest(%s::text[], %s::text[], %s::text[]) as w(host, listener, instance)
        join targets t on t.host = w.host and t.listener = w.listener
            and (t.instance = w.instance or w.instance = '' and t.instance not like '/%%')
        where t.lease_until > now()
        order by t.instance  -- an address last, so that the site's counts
        """,
        keys,
    ).fetchall()
    return {(row[0], row[1], row[2]): Holder(*row[3:]) for row in rows}


def site_listeners(connection: Connection, host: str) -> list[str]:
    """Return the names of a host's exporters that a collector of the site scrapes now, from its targets file."""
    return column(
        connection,
        """
        select distinct listener from targets
        where host = %s and instance <> '' and instance not like '/%%' and lease_until > now()
          and last_seen > now() - interval '1 min'  -- on a busy host, single scrapes fail
        order by listener
        """,
        (host,),
    )


def held_since(connection: Connection, ids: Sequence[int]) -> dict[int, float]:
    """Return the Unix seconds since when no other collector has held each target, by its id."""
    rows = connection.execute(
        "select target_id, extract(epoch from held_since)::float8 from targets"
        " where target_id = any(%s) and held_since is not null",
        (list(ids),),
    ).fetchall()
    return dict(rows)


def report_targets(
    connection: Connection, states: Mapping[int, TargetState], source: str, lease: float = LEASE_SECONDS
) -> list[int]:
    """Store the state of targets and renew their leases. Return the targets that another collector has taken."""
    ids = sorted(states)
    columns = {
        name: [getattr(states[one], name) for one in ids]
        for name in ("up", "last_seen", "clock_offset", "clock_uncertainty")
    }
    return column(
        connection,
        """
        with reported as (
            select * from unnest(%(ids)s::int[], %(up)s::bool[], %(last_seen)s::float8[], %(clock_offset)s::float8[],
                                 %(clock_uncertainty)s::float8[])
                as r(target_id, up, last_seen, clock_offset, clock_uncertainty)
        ), written as (
            update targets t set up = coalesce(r.up, t.up), last_seen = coalesce(to_timestamp(r.last_seen), t.last_seen),
                down_since = case when r.up then null when not r.up then coalesce(t.down_since, now()) else t.down_since end,
                clock_offset = coalesce(r.clock_offset, t.clock_offset),
                clock_uncertainty = coalesce(r.clock_uncertainty, t.clock_uncertainty),
                lease_until = now() + make_interval(secs => %(lease)s)
            from reported r where t.target_id = r.target_id and t.collector = %(source)s
        )
        select t.target_id from targets t join reported using (target_id)
        where t.collector is distinct from %(source)s
            or scraped_elsewhere(t.host, t.listener, t.instance, %(source)s)
        """,
        {**columns, "ids": ids, "source": source, "lease": lease},
    )


def release_targets(connection: Connection, source: str, ids: Sequence[int] | None = None) -> None:
    """Release the leases of targets, so that another collector can take them at once. ``None`` releases all."""
    connection.execute(
        """
        update targets set lease_until = null
        where collector = %s and lease_until is not null and target_id = any(coalesce(%s::int[], array[target_id]))
        """,
        (source, None if ids is None else list(ids)),
    )


def clock_offsets(connection: Connection) -> list[ClockOffset]:
    """Return the current clock offset of each host, from its target with the least uncertainty."""
    rows = connection.execute(
        """
        select distinct on (host) host, clock_offset, clock_uncertainty from targets
        where clock_offset is not null and last_seen > now() - interval '1 min'
        order by host, clock_uncertainty
        """
    ).fetchall()
    return [ClockOffset(*row) for row in rows]


def unmeasured_hosts(connection: Connection, run_ids: Sequence[str] | None = None) -> list[str]:
    """Return the hosts of running runs, all or these, without an exporter that answers or awaits its first scrape."""
    return column(
        connection,
        """
        select distinct p.host from placements p join runs r using (run_id)
        where r.status = 'running' and p.ended_at is null and p.origin = '' and run_id = any(coalesce(%s, array[run_id]))
            and not exists (
                select from targets t
                where t.host = p.host and t.listener <> 'collector' and t.lease_until > now() and t.down_since is null)
        order by p.host
        """,
        (None if run_ids is None else list(run_ids),),
    )
