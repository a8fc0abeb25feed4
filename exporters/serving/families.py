"""Metric families by name, for sources that offer different metrics on different hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric

__all__ = ["Families", "Measurement"]

# Name of a metric, its labels, and its value: ``None`` where the source has none.
Measurement = tuple[str, Mapping[str, str], float | None]


class Families:
    """Metric families in the order of their help texts.

    A metric ending in ``_total`` is a counter, any other a gauge. A family without samples is left out.

    Parameters
    ----------
    helps
        Help texts by the metric's name.
    """

    def __init__(self, helps: Mapping[str, str], measurements: Iterable[Measurement] = ()) -> None:
        self._helps = helps
        self._families: dict[str, Metric] = {}
        for measurement in measurements:
            self.add(*measurement)

    def __iter__(self) -> Iterator[Metric]:
        return (self._families[name] for name in self._helps if name in self._families)

    def add(self, name: str, labels: Mapping[str, str], value: float | None, timestamp: float | None = None) -> None:
        """Add a sample; `timestamp` is in Unix seconds."""
        if value is None:
            return
        family = self._families.get(name)
        if family is None:
            kind = "counter" if name.endswith("_total") else "gauge"
            family = self._families[name] = Metric(name.removesuffix("_total"), self._helps[name], kind)
        family.add_sample(name, dict(labels), value, timestamp)
