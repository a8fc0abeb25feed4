"""Targets as the runs of their hosts choose them: which exporters, and how often."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypergauge.collector.discovery.targets import Target
from hypergauge.sql.ingest.choices import HostChoices, interval_needed

__all__ = ["needed"]


def needed(held: Mapping[int, Target], choices: HostChoices, exporters: Collection[str]) -> dict[int, Target]:
    """Return the targets to scrape now, with their intervals.

    Parameters
    ----------
    held
        The collector's targets, with the intervals of their configuration.
    exporters
        Names of the exporters that runs choose from. Other targets are always scraped, as configured.
    """
    found = {}
    for target_id, target in held.items():
        if target.listener not in exporters or target.host not in choices:
            found[target_id] = target
            continue
        interval = interval_needed(choices[target.host].values(), target.listener, target.interval)
        if interval is not None:
            found[target_id] = target if interval == target.interval else replace(target, interval=interval)
    return found
