"""Availability of exporters on this host, including third-party ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from hypergauge.core.config.settings import Settings
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.stack.services.local_stack import availability


class Exporter:
    """Exporter that holds a resource after a check."""

    name = "theirs"
    opened = 0

    def __init__(self, options: ExporterOptions) -> None: ...

    def check(self) -> str | None:
        Exporter.opened += 1
        return None

    def collect(self) -> Iterator[Metric]:
        yield from ()

    def close(self) -> None:
        Exporter.opened -= 1


class Broken(Exporter):
    """Exporter with a check that fails unexpectedly."""

    def check(self) -> str | None:
        super().check()
        raise ZeroDivisionError("no\ncores")


class Unmakeable(Broken):
    """Exporter with a failing constructor."""

    def __init__(self, options: ExporterOptions) -> None:
        raise KeyError("THEIR_HOME")


def test_exporters_are_checked_and_closed_and_a_broken_one_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    registry.register("theirs", Exporter)
    registry.register("broken", Broken)
    registry.register("unmakeable", Unmakeable)
    monkeypatch.setattr(Registry, "load", lambda: registry)
    monkeypatch.setenv("BENCH_HOME", str(tmp_path))
    assert availability(Settings.load()) == {
        "broken": "it fails with ZeroDivisionError: no cores",
        "theirs": None,
        "unmakeable": "it fails with KeyError: 'THEIR_HOME'",
    }
    assert Exporter.opened == 0
