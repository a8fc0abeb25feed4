"""Metric families from single values, for sources that offer different metrics on different hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["Figure", "families"]

# A metric's name, its labels, and the value: ``None`` where the source has none.
Figure = tuple[str, Mapping[str, str], float | None]


def families(figures: Iterable[Figure], helps: Mapping[str, str]) -> Iterator[Metric]:
    """Yield a family for each name in `helps` that there are figures of; all figures of a name have the same labels.

    What ends in ``_total`` is a counter, all else a gauge.
    """
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for name, labels, value in figures:
        if value is not None:
            if name not in found:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                found[name] = kind(name, helps[name], labels=list(labels))
            found[name].add_metric(list(labels.values()), value)
    yield from (found[name] for name in helps if name in found)
