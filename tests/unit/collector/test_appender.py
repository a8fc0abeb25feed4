"""Appends of records to the spool."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.appender import Appender
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord


def record(samples: int) -> SpoolRecord:
    refs = np.arange(samples, dtype=np.uint32)
    definitions = {ref: SeriesDefinition(1, f"m{ref}", "gauge", {}) for ref in range(samples)}
    return SpoolRecord(np.zeros(samples), refs, np.zeros(samples), np.ones(samples, np.float32), definitions)


def test_dropped_samples_are_counted_at_once(tmp_path: Path) -> None:
    metrics = CollectorMetrics()
    spool = Spool(tmp_path, max_bytes=10_000)

    async def append() -> None:
        appender = Appender(spool, threading.Condition(), metrics)
        await appender.add(record(10))
        await appender.add(record(1000))
        await appender.stop()

    asyncio.run(append())
    spool.close()
    assert metrics.registry.get_sample_value("bench_collector_lost_samples_total") == 1000
    assert metrics.registry.get_sample_value("bench_collector_spool_records") == 1
