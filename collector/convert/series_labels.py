"""Labels of a series: target labels, relabeling, limits. Computed once per new series, never per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hypergauge.collector.convert.exposition import Series
from hypergauge.collector.discovery.relabel import relabel
from hypergauge.collector.discovery.scrape_config import Limits
from hypergauge.collector.discovery.targets import Target
from hypergauge.core.errors import BenchError

__all__ = ["LimitExceeded", "SeriesName", "series_name"]

_METRIC = "__name__"


class LimitExceeded(BenchError):
    """A scrape exceeds a limit of its job. `reason` is the limit."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class SeriesName(NamedTuple):
    """Name of a series of a target in the database."""

    metric: str
    labels: tuple[tuple[str, str], ...]


def series_name(target: Target, series: Series) -> SeriesName | None:
    """Return the name of `series` of `target` in the database, ``None`` if a rule drops it.

    Follows Prometheus: the target's labels are added. A label of the series with the same name becomes
    ``exported_NAME``, or takes precedence with ``honor_labels``. Then ``metric_relabel_configs`` apply. The database
    stores job, instance and host with the target, and with a series only where they differ.

    Raises
    ------
    LimitExceeded
        The series has more or longer labels than its job allows.
    """
    own = {name: value for name, value in series.labels if value}
    if target.scraping.honor_labels:
        labels = {**target.labels, **own}
    else:
        labels = {**own, **target.labels}
        for name in sorted(own.keys() & target.labels.keys()):
            exported = f"exported_{name}"
            while exported in labels:
                exported = f"exported_{exported}"
            labels[exported] = own[name]
    kept = relabel({**labels, _METRIC: series.metric}, target.scraping.metric_relabel)
    if not kept or not (metric := kept.pop(_METRIC, "")):
        return None
    _hold(target.scraping.limits, metric, kept)
    for name, value in (("job", target.listener), ("instance", target.instance), ("host", target.host)):
        if name in target.labels and kept.get(name) == value:
            del kept[name]
    return SeriesName(metric, tuple(sorted(kept.items())))


def _hold(limits: Limits, metric: str, labels: Mapping[str, str]) -> None:
    """Check the labels against the limits; the name counts as a label, and lengths are in bytes, as in Prometheus."""
    if limits.label_limit and len(labels) + 1 > limits.label_limit:
        raise LimitExceeded("label_limit", f"{metric} has {len(labels) + 1} labels, {limits.label_limit} are allowed")
    for name, value in ((_METRIC, metric), *labels.items()):
        if limits.label_name_length_limit and len(name.encode()) > limits.label_name_length_limit:
            raise LimitExceeded("label_name_length_limit", f"{metric} has a label whose name is too long: {name[:80]}…")
        if limits.label_value_length_limit and len(value.encode()) > limits.label_value_length_limit:
            raise LimitExceeded("label_value_length_limit", f"{metric} has too long a value of the label {name}")
