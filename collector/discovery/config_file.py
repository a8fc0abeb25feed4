"""Targets file: a list in ``file_sd`` form, or ``scrape_configs`` as in a prometheus.yml."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from hypergauge.collector.discovery import prometheus_fields
from hypergauge.collector.discovery.access_config import ACCESS, read_access
from hypergauge.collector.discovery.groups import Group, read_groups
from hypergauge.collector.discovery.relabel import ACTIONS, Rule, RuleRefused
from hypergauge.collector.discovery.scrape_config import Announced, Files, Limits, ScrapeConfig, Scraping, Web
from hypergauge.collector.discovery.targets import targets_of
from hypergauge.collector.http.access import Access
from hypergauge.core.config.document import Document, Fields
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["read_config"]

_LIMITS = tuple(limit.name for limit in fields(Limits))
_JOB = (
    "job_name", "scrape_interval", "scrape_timeout", "metrics_path", "scheme", "params", "honor_labels",
    "honor_timestamps", "static_configs", "file_sd_configs", "http_sd_configs", "announced_sd_configs",
    "relabel_configs", "metric_relabel_configs", *ACCESS, *_LIMITS,
)  # fmt: skip
_PATTERN = re.compile(r".*\.(json|yml|yaml)")
_Read = TypeVar("_Read")


def read_config(
    path: Path, default_interval: float, notice: Callable[[str], None] = lambda _: None
) -> tuple[ScrapeConfig, ...]:
    """Read a targets file, YAML or JSON; a list is a job that is named as the file and found in it.

    Parameters
    ----------
    default_interval
        Seconds, where nothing says ``scrape_interval``.
    notice
        Told which of its fields are ignored, if any are.

    Raises
    ------
    BadRequest
        It cannot be read or has errors, all of them with line and column.
    """
    document = Document.read(path)
    if document.root is None:
        raise BadRequest("holds no list of targets, and no scrape_configs", file=path)
    with document.all_at_once():
        configs = _configs(document, path, default_interval)
    if document.ignored:
        notice(f"{path} has fields that the collector ignores: {', '.join(document.ignored)}")
    return configs


def _configs(document: Document, path: Path, interval: float) -> tuple[ScrapeConfig, ...]:
    assert document.root is not None
    if isinstance(document.root, yaml.MappingNode):
        return _Reader(document, path.parent, interval).configs(document.root)
    if not isinstance(document.root, yaml.SequenceNode):
        document.fail(document.root, "expected a list of groups, each with targets and labels, or scrape_configs")
    groups = read_groups(document, document.root)
    config = ScrapeConfig(path.stem, interval, static=groups, document=document, folder=path.parent)
    targets_of(config, document, groups)
    return (config,)


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    folder: Path
    interval: float

    def configs(self, root: yaml.Node) -> tuple[ScrapeConfig, ...]:
        """Return what ``scrape_configs`` says."""
        what, at = "a mapping with scrape_configs", self.document
        if "targets" in at.fields(root, what):
            at.fail(root, "expected a list of groups, each with targets and labels, or scrape_configs")
        known = ("global", "scrape_configs")
        sections = at.fields(root, what, known, prometheus_fields.UNSUPPORTED, prometheus_fields.IGNORED, go_on=True)
        common: Fields = {}
        if "global" in sections:
            names = ("scrape_interval", "scrape_timeout", *_LIMITS)
            ignored = prometheus_fields.GLOBAL_IGNORED
            common = at.attempt(
                lambda: at.fields(sections["global"][1], "a mapping", names, (), ignored, go_on=True), {}
            )
        if "scrape_configs" not in sections:
            at.fail(root, "there are no scrape_configs")
        jobs: dict[str, ScrapeConfig] = {}
        for node in at.items(sections["scrape_configs"][1], "a list of scrape configurations"):
            at.attempt(partial(self._add, jobs, node, common), None)
        return tuple(jobs.values())

    def _add(self, jobs: dict[str, ScrapeConfig], node: yaml.Node, common: Fields) -> None:
        """Add the job that stands at `node`."""
        failures = self.document.failures
        given = self.document.fields(
            node,
            "a scrape configuration",
            _JOB,
            prometheus_fields.JOB_UNSUPPORTED,
            prometheus_fields.JOB_IGNORED,
            go_on=True,
        )
        name = self.document.attempt(lambda: self._name(node, given, jobs), "")
        inherited = {key: value for key, value in common.items() if key in _JOB}
        config = self._job(name, given, inherited)
        if self.document.failures == failures:  # else rules may be missing that make targets of what stands there
            targets_of(config, self.document, config.static)
        jobs[name] = config

    def _name(self, node: yaml.Node, given: Fields, jobs: Mapping[str, ScrapeConfig]) -> str:
        if "job_name" not in given or not (name := self._text(given["job_name"][1])):
            self.document.fail(node, "the scrape configuration has no job_name")
        if name in jobs:
            self.document.fail(given["job_name"][1], f"there are two jobs {name!r}")
        return name

    def _job(self, name: str, given: Fields, inherited: Fields) -> ScrapeConfig:
        attempt = self.document.attempt
        default: tuple[float, float | None] = (self.interval, None)
        interval, timeout = attempt(lambda: self._times(given, inherited), default)
        return ScrapeConfig(
            job_name=name,
            interval=interval,
            timeout=timeout,
            metrics_path=attempt(lambda: self._path(given), "/metrics"),
            scheme=attempt(lambda: self._scheme(given), "http"),
            params=attempt(lambda: self._params(given), ()),
            scraping=Scraping(
                honor_labels=attempt(lambda: self._flag(given, "honor_labels", default=False), False),
                honor_timestamps=attempt(lambda: self._flag(given, "honor_timestamps", default=True), True),
                access=attempt(lambda: read_access(self.document, given, self.folder), Access()),
                limits=attempt(lambda: self._limits({**inherited, **given}), Limits()),
                metric_relabel=self._each(given, "metric_relabel_configs", self._rule),
            ),
            relabel=self._each(given, "relabel_configs", self._rule),
            static=attempt(lambda: self._static(given), ()),
            files=self._each(given, "file_sd_configs", self._files),
            services=(
                *self._each(given, "http_sd_configs", self._web),
                *self._each(given, "announced_sd_configs", self._announced),
            ),
            document=self.document,
            folder=self.folder,
        )

    def _path(self, given: Fields) -> str:
        path = self._text(given["metrics_path"][1]) if "metrics_path" in given else "/metrics"
        if not re.fullmatch(r"/[^?#\s]*", path):
            self.document.fail(given["metrics_path"][1], f"{path!r} is not a path: it begins with /, and has no params")
        return path

    def _scheme(self, given: Fields) -> str:
        return self._choice(given["scheme"][1], ("http", "https")) if "scheme" in given else "http"

    def _static(self, given: Fields) -> tuple[Group, ...]:
        return read_groups(self.document, given["static_configs"][1]) if "static_configs" in given else ()

    def _times(self, given: Fields, inherited: Fields) -> tuple[float, float | None]:
        both = {**inherited, **given}
        interval, timeout = self.interval, None
        if "scrape_interval" in both:
            node = both["scrape_interval"][1]
            interval = self.document.seconds(node, "an interval")
            if not 0.1 <= interval <= 60:
                text = self._text(node)
                self.document.fail(node, f"the interval is {text}, but must lie between 100ms and 1m")
        if "scrape_timeout" in both:
            node = both["scrape_timeout"][1]
            timeout = self.document.seconds(node, "a timeout")
            if "scrape_timeout" not in given:  # of all jobs: as much of it as this one's interval allows
                timeout = min(timeout, interval)
            if not 0 < timeout <= interval:
                self.document.fail(node, f"the timeout must lie above 0 and not above the interval, {interval:g}s")
        return interval, timeout

    def _params(self, given: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if "params" not in given:
            return ()
        named = self.document.fields(given["params"][1], "parameters, each as name: [value, …]")
        return tuple((name, self._texts(node, "a list of values")) for name, (_, node) in named.items())

    def _limits(self, given: Fields) -> Limits:
        found = {name: self.document.count(given[name][1]) for name in _LIMITS[1:] if name in given}
        if "body_size_limit" in given:
            found["body_size_limit"] = self.document.size(given["body_size_limit"][1])
        return Limits(**found)

    def _rule(self, node: yaml.Node) -> Rule:
        reading: dict[str, Callable[[yaml.Node], Any]] = {
            "action": lambda one: self._choice(one, ACTIONS, fold=True),
            "source_labels": lambda one: self._texts(one, "a list of labels' names"),
            "separator": self._text,
            "regex": self._text,
            "target_label": self._text,
            "replacement": self._text,
            "modulus": self.document.count,
        }
        given = self.document.fields(node, "a rule", reading)
        try:
            return Rule(**{name: reading[name](value) for name, (_, value) in given.items()})
        except RuleRefused as error:
            self.document.fail(given[error.field][1] if error.field in given else node, str(error))

    def _files(self, node: yaml.Node) -> Files:
        given = self.document.fields(node, "a mapping with files", ("files", "refresh_interval"))
        if "files" not in given:
            self.document.fail(node, "there are no files")
        for one in self.document.items(given["files"][1], "a list of files"):
            pattern = self._text(one)
            if not _PATTERN.fullmatch(pattern):
                self.document.fail(one, f"{pattern!r} does not end in .json, .yml or .yaml")
            if any(letter in pattern.rpartition("/")[0] for letter in "*?["):
                self.document.fail(one, f"{pattern!r} has a wildcard that is not in its last part")
        return Files(self._texts(given["files"][1], "a list of files"), self._refresh(given, 300.0))

    def _web(self, node: yaml.Node) -> Web:
        known = ("url", "refresh_interval", *ACCESS)
        given = self.document.fields(
            node, "a mapping with url", known, prometheus_fields.WEB_UNSUPPORTED, prometheus_fields.WEB_IGNORED
        )
        if "url" not in given:
            self.document.fail(node, "there is no url")
        url = self._text(given["url"][1])
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.password is not None:
            why = "log in by basic_auth" if usable else "write http://host/path"
            self.document.fail(given["url"][1], f"this is no address of a service discovery: {why}")
        return Web(url, self._refresh(given, 60.0), read_access(self.document, given, self.folder))

    def _announced(self, node: yaml.Node) -> Announced:
        given = self.document.fields(node, "a mapping, which may be empty", ("refresh_interval",))
        return Announced(self._refresh(given, 5.0))

    def _refresh(self, given: Fields, default: float) -> float:
        if "refresh_interval" not in given:
            return default
        node = given["refresh_interval"][1]
        if (seconds := self.document.seconds(node, "an interval")) <= 0:
            self.document.fail(node, "the interval must be longer than 0")
        return seconds

    def _each(self, given: Fields, name: str, read: Callable[[yaml.Node], _Read]) -> tuple[_Read, ...]:
        """Return what `read` makes of each element of the list called `name`."""
        if name not in given:
            return ()
        nothing: list[yaml.Node] = []
        nodes = self.document.attempt(lambda: self.document.items(given[name][1], "a list"), nothing)
        found = (self.document.attempt(partial(read, node), None) for node in nodes)
        return tuple(one for one in found if one is not None)

    def _texts(self, node: yaml.Node, expected: str) -> tuple[str, ...]:
        return tuple(self._text(one) for one in self.document.items(node, expected))

    def _text(self, node: yaml.Node) -> str:
        return self.document.text(node, "a string")

    def _flag(self, given: Fields, name: str, *, default: bool) -> bool:
        return self.document.boolean(given[name][1]) if name in given else default

    def _choice(self, node: yaml.Node, choices: tuple[str, ...], *, fold: bool = False) -> str:
        text = self._text(node)
        text = text.lower() if fold else text
        if text not in choices:
            self.document.fail(node, f"unknown {text!r}{did_you_mean(text, choices)}")
        return text
