"""Targets and their scrape schedule."""

from __future__ import annotations

import hashlib
import math
import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from hypergauge.collector.discovery.relabel import relabel
from hypergauge.collector.discovery.scrape_config import ScrapeConfig, Scraping
from hypergauge.core.addresses import host_in, is_loopback
from hypergauge.core.config.document import duration
from hypergauge.core.errors import did_you_mean
from hypergauge.sql.ingest.targets import TargetRow

__all__ = ["Key", "Target", "TargetRefused", "aligned", "crowded", "offset", "populate", "slot_after"]

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>.*))?")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # JSON and YAML can write both; PostgreSQL's text holds neither
_PORTS = {"http": 80, "https": 443}
_PARAMETER = "__param_"
_LATE = 0.5  # as a share of an interval
_LONGEST_INTERVAL = 60.0
# Targets of a host that are scraped together, at most. More at once would delay each other.
_TOGETHER = 16

Key = tuple[str, str, str]


class TargetRefused(ValueError):
    """Labels without a valid target; `label` is the invalid one."""

    def __init__(self, label: str, message: str) -> None:
        self.label = label
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Target:
    """Target to scrape.

    Attributes
    ----------
    url
        URL with scheme, port, path and parameters.
    host
        Host that its metrics describe, with the name in the runs.
    listener
        Prometheus's job.
    instance
        ``host:port``, or the label of this name.
    labels
        Labels of each of its series, as in Prometheus: see `hypergauge.collector.convert.series_labels`.
    interval
        Seconds from one scrape to the next, 0.1 to 60.
    timeout
        Timeout of a scrape in seconds; ``None`` for the interval, limited to 1 to 10.
    scraping
        Other options of its job.
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
        """Return whether its labels name the host, which then overrides the host in its lines."""
        return bool(self.labels.get("host"))

    @property
    def row(self) -> TargetRow:
        """Row of the target in the database."""
        return TargetRow(self.host, self.listener, self.instance, self.url, self.says_host)

    def public(self) -> dict[str, object]:
        """Return the properties for public display."""
        return {
            "url": self.url,
            "host": self.host,
            "listener": self.listener,
            "instance": self.instance,
            "labels": self.labels,
            "interval": self.interval,
            "timeout": self.effective_timeout,
        }

    @property
    def effective_timeout(self) -> float:
        """Timeout of a scrape in seconds."""
        return self.timeout if self.timeout is not None else min(max(self.interval, 1.0), 10.0)


def offset(target: Target, *, together: bool = True) -> float:
    """Return the offset of `target`'s scrapes in seconds after the multiples of its interval in Unix time.

    It depends on the target alone, as in Prometheus: a restart moves none. Hosts are spread over the interval.

    Parameters
    ----------
    together
        Whether all targets of a host are scraped together, also those with other whole intervals. Their samples then
        have the same times, and the second scrape finds warm caches. Otherwise the targets of a host are spread too.
    """
    spread = target.host if together else target.url
    digest = hashlib.blake2b(spread.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * _LONGEST_INTERVAL % target.interval


def crowded(targets: Iterable[Target]) -> set[str]:
    """Return the hosts that have too many targets to scrape them together."""
    counts = Counter(target.host for target in targets)
    return {host for host, count in counts.items() if count > _TOGETHER}


def aligned(scheduled: float, actual: float, interval: float) -> float:
    """Return the timestamp of a scrape's samples: `scheduled` if `actual` is near, else `actual`. Unix seconds.

    Even times compress to almost nothing; a jitter of milliseconds costs two bytes a sample. Near means within 1 % of
    the interval, and 10 ms at most. Prometheus allows 2 ms, which Go's timers keep; a Python event loop with hundreds
    of targets does not.
    """
    return scheduled if abs(actual - scheduled) <= min(0.010, 0.01 * interval) else actual


def slot_after(slot: int, by_now: float) -> int:
    """Return the number of the scrape after number `slot`, at a time of `by_now` intervals.

    A scrape that is late by less than half an interval begins late, as with Go's ticker and in Prometheus. A busy
    host's targets are thus scraped late instead of not at all. Scrapes that are later are skipped.
    """
    return max(math.ceil(by_now - _LATE), slot + 1)


def populate(config: ScrapeConfig, discovered: Mapping[str, str]) -> Target | None:
    """Return the target of discovered labels, ``None`` if a rule drops it. Imitates Prometheus's ``PopulateLabels``.

    Raises
    ------
    TargetRefused
        The relabeled labels do not describe a valid target.
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
            raise TargetRefused(name, f"{value!r} cannot be a label's value: it contains invalid UTF-8 or a NUL")
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
    """Return the parameters, sorted by name as in Go; a label replaces the first value of its name."""
    params = {name: list(values) for name, values in config.params}
    for label, value in labels.items():
        if label.startswith(_PARAMETER):
            params.setdefault(label.removeprefix(_PARAMETER), [""])[:1] = [value]
    return urlencode(sorted(params.items()), doseq=True)


def _address(text: str, default_port: int) -> tuple[str, str]:
    """Return the bare host and ``host:port``."""
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
    """Return `name`, or this host's name for a loopback address."""
    return socket.gethostname() if is_loopback(name) else name
