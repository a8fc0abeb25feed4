"""Models of a job in a targets file, with Prometheus's fields and defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from hypergauge.collector.discovery import prometheus_fields
from hypergauge.collector.discovery.access_config import AccessSection
from hypergauge.collector.discovery.group_targets import targets_of
from hypergauge.collector.discovery.groups import Group
from hypergauge.collector.discovery.relabel import Action, Rule, RuleRefused
from hypergauge.collector.discovery.scrape_config import Announced, Files, Limits, ScrapeConfig, Scraping, Web
from hypergauge.core.config.document import Document
from hypergauge.core.config.model import Count, Flag, Items, Refused, Seconds, Section, Size

__all__ = ["Job"]

_FILE = re.compile(r".*\.(json|yml|yaml)")


def _above_0(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("the interval must be longer than 0")
    return seconds


def _pattern(pattern: str) -> str:
    if not _FILE.fullmatch(pattern):
        raise ValueError(f"{pattern!r} does not end in .json, .yml or .yaml")
    if any(letter in pattern.rpartition("/")[0] for letter in "*?["):
        raise ValueError(f"{pattern!r} has a wildcard that is not in its last part")
    return pattern


def _address(url: str) -> str:
    """Refuse an invalid address without showing it: it may hold a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.password is not None:
        why = "log in by basic_auth" if usable else "write http://host/path"
        raise ValueError(f"not an address of a service discovery: {why}")
    return url


def _path(path: str) -> str:
    if not re.fullmatch(r"/[^?#\s]*", path):
        raise ValueError(f"{path!r} is not a path: it begins with /, and has no params")
    return path


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


_Refresh = Annotated[Seconds, AfterValidator(_above_0)]


class _Rule(Section):
    expected: ClassVar = "a rule"

    action: Annotated[Action, BeforeValidator(_lower)] = "replace"
    source_labels: Items[str] = Field((), description="a list of labels' names")
    separator: str = ";"
    regex: str = "(.*)"
    target_label: str = ""
    replacement: str = "$1"
    modulus: Count = 0

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        try:
            self.rule()
        except RuleRefused as error:
            raise Refused(error.field, str(error)) from None
        return self

    def rule(self) -> Rule:
        """Return the rule."""
        return Rule(**dict(self))


class _Files(Section):
    expected: ClassVar = "a mapping with files"

    files: Items[Annotated[str, AfterValidator(_pattern)]] = Field(description="a list of files")
    refresh_interval: _Refresh = 300.0


class _Web(AccessSection):
    ignored: ClassVar = prometheus_fields.WEB_IGNORED
    unsupported: ClassVar = prometheus_fields.WEB_UNSUPPORTED
    expected: ClassVar = "a mapping with url"

    url: Annotated[str, AfterValidator(_address)]
    refresh_interval: _Refresh = 60.0


class _Announced(Section):
    expected: ClassVar = "a mapping, which may be empty"

    refresh_interval: _Refresh = 5.0


class Job(AccessSection):
    """Entry of ``scrape_configs``."""

    ignored: ClassVar = prometheus_fields.JOB_IGNORED
    unsupported: ClassVar = prometheus_fields.JOB_UNSUPPORTED
    expected: ClassVar = "a scrape configuration"

    job_name: str
    scrape_interval: Seconds | None = None
    scrape_timeout: Seconds | None = None
    metrics_path: Annotated[str, AfterValidator(_path)] = "/metrics"
    scheme: Literal["http", "https"] = "http"
    params: dict[str, Items[str]] = Field({}, description="parameters, each as name: [value, …]")
    honor_labels: Flag = False
    honor_timestamps: Flag = True
    body_size_limit: Size = 0
    sample_limit: Count = 0
    label_limit: Count = 0
    label_name_length_limit: Count = 0
    label_value_length_limit: Count = 0
    static_configs: Items[Group] = Field((), description="a list of groups, each with targets and labels")
    file_sd_configs: Items[_Files] = ()
    http_sd_configs: Items[_Web] = ()
    announced_sd_configs: Items[_Announced] = ()
    relabel_configs: Items[_Rule] = ()
    metric_relabel_configs: Items[_Rule] = ()

    @field_validator("job_name")
    @classmethod
    def _only_one(cls, name: str, info: ValidationInfo) -> str:
        jobs: set[str] = info.context["jobs"] if info.context else set()
        if not name:
            raise ValueError("job_name is missing")
        if name in jobs:
            raise ValueError(f"there are two jobs {name!r}")
        jobs.add(name)
        return name

    @field_validator("scrape_interval")
    @classmethod
    def _in_range(cls, interval: float) -> float:
        if not 0.1 <= interval <= 60:
            raise ValueError(f"the interval is {interval:g}s, but must lie between 100ms and 1m")
        return interval

    @field_validator("scrape_timeout")
    @classmethod
    def _within_interval(cls, timeout: float, info: ValidationInfo) -> float:
        if "scrape_interval" in info.data:
            interval = info.data["scrape_interval"] or (info.context or {}).get("interval", 1.0)
            if not 0 < timeout <= interval:
                raise ValueError(f"the timeout must lie above 0 and not above the interval, {interval:g}s")
        return timeout

    @model_validator(mode="after")
    def _check_targets(self, info: ValidationInfo) -> Self:
        """Report invalid targets together with all other errors."""
        if info.context is not None:
            document: Document = info.context["document"]
            with info.context["problems"].attempt():
                config = self.config(Path(document.path).parent, document, info.context["interval"])
                targets_of(config, document, config.static)
        return self

    def config(self, folder: Path, document: Document, default_interval: float) -> ScrapeConfig:
        """Return the configuration; files are relative to `folder`."""
        return ScrapeConfig(
            job_name=self.job_name,
            interval=self.scrape_interval or default_interval,
            timeout=self.scrape_timeout,
            metrics_path=self.metrics_path,
            scheme=self.scheme,
            params=tuple(self.params.items()),
            scraping=Scraping(
                honor_labels=self.honor_labels,
                honor_timestamps=self.honor_timestamps,
                access=self.access(folder),
                limits=Limits(
                    self.body_size_limit,
                    self.sample_limit,
                    self.label_limit,
                    self.label_name_length_limit,
                    self.label_value_length_limit,
                ),
                metric_relabel=tuple(one.rule() for one in self.metric_relabel_configs),
            ),
            relabel=tuple(one.rule() for one in self.relabel_configs),
            static=self.static_configs,
            files=tuple(Files(one.files, one.refresh_interval) for one in self.file_sd_configs),
            services=(
                *(Web(one.url, one.refresh_interval, one.access(folder)) for one in self.http_sd_configs),
                *(Announced(one.refresh_interval) for one in self.announced_sd_configs),
            ),
            document=document,
            folder=folder,
        )
