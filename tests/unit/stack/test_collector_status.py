"""The collector's line in `bench status`."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client import generate_latest

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.stack.collector_status import CollectorStatus


def lived() -> CollectorMetrics:
    """Return the metrics of a collector with every kind of event."""
    metrics = CollectorMetrics()
    metrics.targets.labels("up").set(3)
    metrics.targets.labels("taken").set(1)
    metrics.scrapes.labels("ok").inc(100)
    metrics.scrapes.labels("timeout").inc(2)
    metrics.scrapes.labels("cut_short").inc(5)
    metrics.dropped.labels("repeated").inc(4)
    metrics.replayed_batches.inc(6)
    metrics.sample_rate.set(1234.4)
    metrics.series.set(1234)
    metrics.reported_at -= 200
    metrics.spool_records.set(2)
    metrics.spool_bytes.set(2048)
    for _ in range(2):
        metrics.scrape_seconds.observe(0.003)
        metrics.lag_seconds.observe(0.0005)
    return metrics


def test_one_line_for_a_collector() -> None:
    status = CollectorStatus.parse(generate_latest(lived().registry).decode())
    assert status.line() == (
        "1234 samples/s of 1234 series; 3 up 1 taken; scrapes take 3.0 ms; begin 0.5 ms late; spool 2 records, 2 KiB; "
        "7 scrapes failed (cut_short 5, timeout 2); 4 lines dropped (repeated 4); 6 batches found written; "
        "last report to the database 3:20 ago"
    )
    assert status.failed == {"cut_short": 5, "timeout": 2}


def test_a_collector_that_has_just_begun() -> None:
    status = CollectorStatus.parse(generate_latest(CollectorMetrics().registry).decode())
    assert status.line() == "0 samples/s of 0 series; no targets; spool 0 records, 0 B"


def test_one_of_each_is_singular() -> None:
    metrics = CollectorMetrics()
    metrics.spool_records.set(1)
    metrics.dropped.labels("repeated").inc()
    metrics.replayed_batches.inc()
    assert (
        CollectorStatus.parse(generate_latest(metrics.registry).decode())
        .line()
        .endswith("; spool 1 record, 0 B; 1 line dropped (repeated 1); 1 batch found written")
    )


def test_one_that_does_not_answer() -> None:
    assert CollectorStatus.read("http://127.0.0.1:1/metrics") is None


def test_promtool_finds_nothing_in_the_collectors_own_metrics() -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed; Debian has it in the package prometheus")
    exposition = generate_latest(lived().registry)
    checked = subprocess.run([promtool, "check", "metrics"], input=exposition, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
