"""Rendering equals the reference byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from hypergauge.exporters.host.exporter import HostExporter
from hypergauge.exporters.process.exporter import ProcessExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import WrittenFamily, escaped, render


class Given(Collector):
    """Collector of given families."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        yield from self.families


names = st.builds(str.__add__, st.sampled_from("aZ_:"), st.text("aZ_:0", max_size=4))
label_names = st.builds(str.__add__, st.sampled_from("bY_"), st.text("bY_1", max_size=4))
values = st.one_of(st.floats(), st.integers(-(10**20), 10**20))
timestamps = st.none() | st.floats(0, 2e9)


@st.composite
def families(draw: st.DrawFn) -> Metric:
    kind = draw(st.sampled_from([CounterMetricFamily, GaugeMetricFamily]))
    labels = draw(st.lists(label_names, max_size=3, unique=True))
    family: Metric = kind(draw(names), draw(st.text(max_size=8)), labels=labels)
    for _ in range(draw(st.integers(0, 3))):
        given = [draw(st.text(max_size=8)) for _ in labels]
        family.add_metric(given, draw(values), timestamp=draw(timestamps))  # type: ignore[attr-defined]
    return family


@given(st.lists(families(), max_size=3))
def test_counters_and_gauges_equal_the_reference(found: list[Metric]) -> None:
    assert render(found) == generate_latest(Given(found))


@pytest.mark.parametrize(
    "family",
    [
        HistogramMetricFamily("h", "Help.", buckets=[("0.1", 1), ("+Inf", 3)], sum_value=2),
        SummaryMetricFamily("s", "Help.", count_value=2, sum_value=3),
        InfoMetricFamily("i", "Help.", value={"driver": "575"}),
        CounterMetricFamily("made", "Help.", 5, created=123.4),
        GaugeMetricFamily("größe", "Help.", 1.5),
        Metric("u", "Help.", "unknown"),
    ],
    ids=lambda family: family.name,
)
def test_other_types_equal_the_reference(family: Metric) -> None:
    assert render([family]) == generate_latest(Given([family]))


@pytest.mark.parametrize("factory", [HostExporter, ProcessExporter])
def test_expositions_of_our_exporters_equal_the_reference(
    factory: type[HostExporter] | type[ProcessExporter], tmp_path: Path
) -> None:
    found = list(factory(ExporterOptions(home=tmp_path)).collect())
    assert render(found) == generate_latest(Given(found))


def test_written_families_stay_unchanged() -> None:
    """A counter without ``_total``, with the original's order of labels and format of numbers."""
    value = escaped('a"\\\n')
    family = WrittenFamily(
        "DCGM_ROWS", "Rows\nthere.", "counter", [f'DCGM_ROWS{{z="1",a="{value}"}} 7', "DCGM_ROWS{} 0.250000"]
    )
    gauge = GaugeMetricFamily("room_celsius", "Temperature.", 21.5)
    assert render([family, gauge, WrittenFamily("none", "None.", "gauge", [])]).decode() == (
        "# HELP DCGM_ROWS Rows\\nthere.\n# TYPE DCGM_ROWS counter\n"
        'DCGM_ROWS{z="1",a="a\\"\\\\\\n"} 7\nDCGM_ROWS{} 0.250000\n'
        + generate_latest(Given([gauge])).decode()
        + "# HELP none None.\n# TYPE none gauge\n"
    )
