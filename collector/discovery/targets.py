"""Targets and their scrape schedule."""

from __future__ import annotations

import hashlib
import math
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

import yaml

from hypergauge.collector.discovery.groups import Group
from hypergauge.collector.discovery.relabel import relabel
from hypergauge.collector.discovery.scrape_config import ScrapeConfig, Scraping
from hypergauge.core.addresses import host_in, is_loopback
from hypergauge.core.config.document import Document, duration
from hypergauge.core.errors import did_you_mean
from hypergauge.sql.ingest.targets import TargetRow

__all__ = ["Key", "Target", "TargetRefused", "aligned", "offset", "populate", "slot_after", "targets_of"]

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>.*))?")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # JSON and YAML can write both; no text of PostgreSQL's holds them
_PORTS = {"http": 80, "https": 443}
_PARAMETER = "__param_"
_LATE = 0.5  # of an interval

Key = tuple[str, str, str]


class TargetRefused(ValueError):
    """These labels make no target; `label` says which is to blame."""

    def __init__(self, label: str, message: str) -> None:
        self.label = label
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Target:
    """One place to scrape.

    Attributes
    ----------
    url
        With scheme, port, path and parameters.
    host
        The host that its figures are about, by the name that runs are placed on.
    exporter
        What Prometheus calls the job.
    instance
        ``host:port``, or what the label of this name says.
    labels
        What is added to each of its series, as in Prometheus: see `hypergauge.collector.convert.series_labels`.
    interval
        Seconds from one scrape to the next, 0.1 to 60.
    timeout
        Seconds that a scrape may take; ``None`` for the interval, within 1 to 10.
    scraping
        The rest of what its job says.
    """

    url: str
    host: str
    listener: str
    instance: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    interval: float = 1.0
    timeout: float | None = None
    scraping: Scraping = field(default=Scraping(), repr=False, hash=False)

    @property
    def key(self) -> Key:
        """Key of the target in the database; no two targets share it."""
        return self.host, self.listener, self.instance

    @property
    def says_host(self) -> bool:
        """Return whether its labels say the host, which then goes before the one that its lines name."""
        return bool(self.labels.get("host"))

    @property
    def row(self) -> TargetRow:
        """Row of the target in the database."""
        return TargetRow(self.host, self.listener, self.instance, self.url, self.says_host)

    def public(self) -> dict[str, object]:
        """Return what anybody may see of it."""
        return {
            "url": self.url,
            "host": self.host,
            "listener": self.listener,
            "instance": self.instance,
            "labels": self.labels,
            "interval": self.interval,
            "timeout": self.patience,
        }

    @property
    def patience(self) -> float:
        """Seconds after which a scrape is given up."""
        return self.timeout if self.timeout is not None else min(max(self.interval, 1.0), 10.0)


def offset(target: Target) -> float:
    """Return the seconds by which `target`'s scrapes lie behind the multiples of its interval in Unix time.

    It follows from the URL alone, as in Prometheus, so that targets are spread and a restart moves none.
    """
    digest = hashlib.blake2b(target.url.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * target.interval


def aligned(scheduled: float, actual: float, interval: float) -> float:
    """Return the time that a scrape's samples get: `scheduled` if `actual` is near, else `actual`. Unix seconds.

    Even times compress to almost nothing where a jitter of milliseconds costs two bytes a sample. Near is within 1 %
    of the interval, and 10 ms at most; Prometheus allows 2 ms, which Go's timers keep and a Python event loop with
    hundreds of targets does not.
    """
    return scheduled if abs(actual - scheduled) <= min(0.010, 0.01 * interval) else actual


def slot_after(slot: int, by_now: float) -> int:
    """Return the number of the scrape that follows number `slot`, at a time of `by_now` intervals.

    What passed by less than half an interval is begun late, as by Go's ticker and so by Prometheus: where others take the
    loop's core for a second, its targets are scraped late instead of not at all. What passed by more is skipped, not made
    up for: its moment is gone.
    """
    return max(math.ceil(by_now - _LATE), slot + 1)


def targets_of(
    config: ScrapeConfig, document: Document, groups: Sequence[Group], meta: Mapping[str, str] | None = None
) -> list[Target]:
    """Return the targets that `config` makes of the groups in `document`, without those that its rules drop.

    Parameters
    ----------
    meta
        Labels that say where the groups were found.

    Raises
    ------
    BadRequest
        One of them is no target, or two are the same.
    """
    found: dict[Key, tuple[Target, int]] = {}

    def add(group: Group, labels: Mapping[str, str], node: yaml.Node, address: str) -> None:
        try:
            target = populate(config, {**labels, "__address__": address})
        except TargetRefused as refused:
            document.fail(group.labels[refused.label][0] if refused.label in group.labels else node, str(refused))
        if target is None:
            return
        known, line = found.setdefault(target.key, (target, node.start_mark.line + 1))
        if known is not target and (known != target or not config.relabel):
            what = f"target {address!r} stands already in line {line}"
            document.fail(node, what if known == target else f"{what}, with the same job and instance")

    for group in groups:
        shared = {name: value for name, (_, value) in group.labels.items()} | dict(meta or {})
        for node, address in group.addresses:
            document.attempt(partial(add, group, shared, node, address), None)
    return [target for target, _ in found.values()]


def populate(config: ScrapeConfig, discovered: Mapping[str, str]) -> Target | None:
    """Return the target of discovered labels, as Prometheus's ``PopulateLabels`` does it; ``None`` if it is dropped.

    Raises
    ------
    TargetRefused
        What the rules leave is no target.
    """
    defaults = {
        "job": config.job_name,
        "__metrics_path__": config.metrics_path,
        "__scheme__": config.scheme,
        "__scrape_interval__": f"{round(config.interval * 1000)}ms",
        **({"__scrape_timeout__": f"{round(config.timeout * 1000)}ms"} if config.timeout is not None else {}),
    }
    labels = {**defaults, **{name: value for name, value in discovered.items() if value}}
    labels |= {_PARAMETER + name: values[0] for name, values in config.params if values}
    kept = relabel(labels, config.relabel)
    if kept is None:
        return None
    for name, value in kept.items():
        if _UNSTORABLE.search(value):
            raise TargetRefused(
                name, f"{value!r} cannot be a label's value: it holds what is no text in UTF-8, or a NUL"
            )
    scheme = kept.get("__scheme__", "http")
    if scheme not in _PORTS:
        raise TargetRefused("__scheme__", f"unknown scheme {scheme!r}{did_you_mean(scheme, _PORTS)}")
    path = kept.get("__metrics_path__", "/")
    if not re.fullmatch(r"/[^?#\s]*", path):
        raise TargetRefused(
            "__metrics_path__", f"{path!r} is not a path: it begins with / and its parameters are labels __param_NAME"
        )
    host, address = _address(kept.get("__address__", ""), _PORTS[scheme])
    interval = _interval(kept.get("__scrape_interval__", ""))
    timeout = _timeout(kept["__scrape_timeout__"], interval) if "__scrape_timeout__" in kept else None
    shown = {name: value for name, value in kept.items() if not name.startswith("__")}
    instance = shown.setdefault("instance", address)
    query = _query(config, kept)
    return Target(
        url=f"{scheme}://{address}{path}{'?' if query else ''}{query}",
        host=shown.get("host") or _host(host_in(instance) or host),
        listener=shown.get("job", ""),
        instance=instance,
        labels=shown,
        interval=interval,
        timeout=timeout,
        scraping=config.scraping,
    )


def _query(config: ScrapeConfig, labels: Mapping[str, str]) -> str:
    """Return the parameters, sorted by name as Go does; a label goes before the first value of its name."""
    params = {name: list(values) for name, values in config.params}
    for label, value in labels.items():
        if label.startswith(_PARAMETER):
            params.setdefault(label.removeprefix(_PARAMETER), [""])[:1] = [value]
    return urlencode(sorted(params.items()), doseq=True)


def _address(text: str, default_port: int) -> tuple[str, str]:
    """Return the host alone, and ``host:port``."""
    label = "__address__"
    if "://" in text:
        bare = text.partition("://")[2].partition("/")[0]
        raise TargetRefused(label, f"{text!r} has a scheme: write {bare!r}, and https as the label __scheme__")
    if "/" in text:
        bare = text.partition("/")[0]
        raise TargetRefused(label, f"{text!r} has a path: write {bare!r}, and the path as the label __metrics_path__")
    if not (match := _ADDRESS.fullmatch(text)):
        raise TargetRefused(label, f"{text!r} is not a target: write host:port, or [address]:port for IPv6")
    port = match["port"]
    if port is None:
        return match["six"] or match["name"], f"{text}:{default_port}"
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise TargetRefused(label, f"the port of {text!r} is not a number from 1 to 65535")
    return match["six"] or match["name"], text


def _interval(text: str) -> float:
    if (interval := duration(text)) is None:
        raise TargetRefused("__scrape_interval__", f"{text!r} is not an interval: write 500ms, 5s or 1m")
    if not 0.1 <= interval <= 60:
        raise TargetRefused("__scrape_interval__", f"the interval is {text}, but must lie between 100ms and 1m")
    return interval


def _timeout(text: str, interval: float) -> float:
    if (timeout := duration(text)) is None:
        raise TargetRefused("__scrape_timeout__", f"{text!r} is not a timeout: write 500ms, 5s or 1m")
    if not 0 < timeout <= interval:
        raise TargetRefused("__scrape_timeout__", f"the timeout is {text}, but must not be above the interval")
    return timeout


def _host(name: str) -> str:
    """Return `name`, or this host's own where it means that."""
    return socket.gethostname() if is_loopback(name) else name
