"""Targets of a collector, as the runs of their hosts choose them."""

from __future__ import annotations

from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.sharing.choices import needed


def target(host: str, listener: str, interval: float = 1.0) -> Target:
    return Target(f"http://{host}:1/metrics", host, listener, "", interval=interval)


HELD = {
    1: target("n1", "host"),
    2: target("n1", "nvml", 5.0),
    3: target("n1", "collector", 10.0),
    4: target("n1", "ceph"),
    5: target("n2", "host"),
}
EXPORTERS = ("host", "nvml", "process")


def test_without_runs_all_targets_are_scraped_as_configured() -> None:
    assert needed(HELD, {}, EXPORTERS) == HELD


def test_runs_choose_the_exporters_of_their_host_and_no_other_targets() -> None:
    found = needed(HELD, {"n1": {"a": {"nvml": 0.1}, "b": {}}}, EXPORTERS)
    assert found == {2: target("n1", "nvml", 0.1)} | {number: HELD[number] for number in (3, 4, 5)}


def test_a_run_without_a_choice_needs_all_exporters() -> None:
    found = needed(HELD, {"n1": {"a": {"nvml": 0.1}, "b": None}}, EXPORTERS)
    assert found == HELD | {2: target("n1", "nvml", 0.1)}
