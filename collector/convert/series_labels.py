"""Labels of a series: target labels, relabeling, limits. Computed once per new series, never per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hypergauge.collector.convert.exposition import Series
from hypergauge.collector.discovery.relabel import relabel
from hypergauge.collector.discovery.scrape_config import Limits
from hypergauge.collector.discovery.targets import Target
from hypergauge.core.addresses import host_in, is_loopback
from hypergauge.core.errors import BenchError
from hypergauge.sql.ingest.samples import LineHost

__all__ = ["LimitExceeded", "SeriesName", "series_name"]

_METRIC = "__name__"


class LimitExceeded(BenchError):
    """A scrape exceeds a limit of its job. `reason` is the limit."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class SeriesName(NamedTuple):
    """Name of a series of a target in the database, and the host that its own labels give, if any."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    host: LineHost | None = None


def series_name(target: Target, series: Series) -> SeriesName | None:
    """Return the name of `series` of `target` in the database, ``None`` if a rule drops it.

    Follows Prometheus: the target's labels are added. A label of the series with the same name becomes
    ``exported_NAME``, or takes precedence with ``honor_labels``, also if it is empty. Then ``metric_relabel_configs`` apply.
    The database stores job, instance and host with the target, and with a series only where they differ.

    Raises
    ------
    LimitExceeded
        The series has more or longer labels than its job allows.
    """
    own = {name: value for name, value in series.labels if value}
    if target.scraping.honor_labels:
        labels = {name: value for name, value in {**target.labels, **dict(series.labels)}.items() if value}
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
    host = _host(target, dict(series.labels), kept)
    for name, value in (("job", target.listener), ("instance", target.instance), ("host", target.host)):
        if name in target.labels and kept.get(name) == value:
            del kept[name]
    return SeriesName(metric, tuple(sorted(kept.items())), host)


def _host(target: Target, own: Mapping[str, str], labels: Mapping[str, str]) -> LineHost | None:
    """Return the host that a series' labels give where they differ from the target's, by ``honor_labels`` or relabeling."""
    named = labels.get("host")
    is_of_target = named == target.labels["host"] if target.says_host else named == own.get("host")
    if named and not is_of_target:
        return LineHost(named, by_label=True)
    if target.says_host or "instance" not in target.labels:
        return None
    if target.scraping.honor_labels and own.get("instance") == "":
        return LineHost("")  # so Prometheus's federation marks a series of no instance, such as a recorded sum
    instance = labels.get("instance", "")
    if instance in ("", target.labels["instance"]):
        return None
    host = host_in(instance) or instance
    return None if is_loopback(host) else LineHost(host)  # on the host that serves the line


def _hold(limits: Limits, metric: str, labels: Mapping[str, str]) -> None:
    """Check the labels against the limits; the name counts as a label, and lengths are in bytes, as in Prometheus."""
    if limits.label_limit and len(labels) + 1 > limits.label_limit:
        raise LimitExceeded("label_limit", f"{metric} has {len(labels) + 1} labels, {limits.label_limit} are allowed")
    for name, value in ((_METRIC, metric), *labels.items()):
        if limits.label_name_length_limit and len(name.encode()) > limits.label_name_length_limit:
            raise LimitExceeded("label_name_length_limit", f"{metric} has a label whose name is too long: {name[:80]}…")
        if limits.label_value_length_limit and len(value.encode()) > limits.label_value_length_limit:
            raise LimitExceeded("label_value_length_limit", f"{metric} has too long a value of the label {name}")
