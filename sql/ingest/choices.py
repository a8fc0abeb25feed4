"""Choices of exporters: which ones measure the runs of a host, and how often."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value

__all__ = ["Choice", "HostChoices", "are_followed", "follow_choices", "host_choices", "interval_needed"]

Choice = Mapping[str, float | None]
"""Seconds between scrapes by exporter, `None` for the configured ones. Other exporters do not measure the run."""


HostChoices = Mapping[str, Mapping[str, Choice | None]]
"""Choices of the runs that run or are about to, by host and run; `None` if all exporters measure the run."""


def interval_needed(choices: Collection[Choice | None], exporter: str, configured: float) -> float | None:
    """Return the seconds between scrapes of an exporter that suffice for all runs of a host; `None` if no run needs it.

    Without runs these are the configured ones.
    """
    if not choices:
        return configured
    wanted = [
        configured if choice is None else choice[exporter] or configured
        for choice in choices
        if choice is None or exporter in choice
    ]
    return min(wanted, default=None)


def host_choices(connection: Connection) -> HostChoices:
    """Return the current choices of all runs. A run whose scheduler or supervisor is silent for a lease has none."""
    rows = connection.execute(
        "select host, run_id, exporters from runs where status in ('pending', 'running') and lease_until > now() and host <> ''"
    )
    found: dict[str, dict[str, Choice | None]] = {}
    for host, run_id, choice in rows:
        found.setdefault(host, {})[run_id] = choice
    return found


def follow_choices(
    connection: Connection, source: str, intervals: Mapping[int, float | None], run_ids: Sequence[Sequence[str]]
) -> None:
    """Record that the collector `source` follows the choices of runs.

    Parameters
    ----------
    intervals
        Seconds between scrapes by target; 0 for no scrapes, `None` for the configured ones.
    run_ids
        Runs of each target's host, in the same order.
    """
    connection.execute(
        """
        insert into followed_choices (target_id, collector, interval, run_ids)
        select i.target_id, %(source)s, i.interval, string_to_array(i.run_ids, ' ')
        from unnest(%(ids)s::int[], %(intervals)s::float8[], %(run_ids)s::text[]) as i(target_id, interval, run_ids)
        join targets using (target_id)
        on conflict (target_id) do update set
            collector = excluded.collector, interval = excluded.interval, run_ids = excluded.run_ids
        """,
        {
            "source": source,
            "ids": list(intervals),
            "intervals": list(intervals.values()),
            "run_ids": [" ".join(runs) for runs in run_ids],
        },
    )


def are_followed(connection: Connection, run_ids: Sequence[str]) -> bool:
    """Return whether collectors follow the choices of pending runs.

    Where no run of the host has a choice, its targets are scraped as configured, and there is none to follow.
    """
    return value(
        connection,
        bool,
        """
        select not exists (
            select from runs r join targets t using (host)
            left join followed_choices f on f.target_id = t.target_id and f.collector = t.collector
            where r.run_id = any(%s) and t.lease_until > now() and t.listener <> 'collector'
                and (r.exporters is not null or f.interval is not null)
                and r.run_id <> all(coalesce(f.run_ids, '{}')))
        """,
        (list(run_ids),),
    )
