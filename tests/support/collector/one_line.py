"""Scrapes of a target that always answers with the same line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.convert.series_labels import series_name
from hypergauge.collector.discovery.discovery import read_targets
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.leases import Leases
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from tests.support.world import World

__all__ = ["SECONDS", "scrape_line"]

SECONDS = 30


def scrape_line(world: World, file: Path, line: str, start: float) -> None:
    """Scrape the one target of a targets file each second for `SECONDS` from `start` on, in Unix seconds."""
    [target] = read_targets(file, default_interval=1.0)
    leases = Leases(world.database, "me", CollectorMetrics())
    leases.claim({target.key: target})
    [target_id] = leases.held
    leases.close()
    parser, rates = Parser(), Rates(1.0)
    parts = [rates.samples(parser.parse(line.encode()), start + second) for second in range(SECONDS)]
    [series] = parser.series
    name = series_name(target, series)
    assert name is not None
    world.next_ref += 1
    times, values, dts = (
        np.concatenate([getattr(part, column) for part in parts]) for column in ("times", "values", "dts")
    )
    definition = SeriesDefinition(target_id, name.metric, series.kind, dict(name.labels), host=name.host)
    refs = np.full(len(times), world.next_ref, np.uint32)
    world.write(SpoolRecord(times, refs, values, dts, {world.next_ref: definition}))
