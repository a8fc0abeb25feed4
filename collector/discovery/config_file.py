"""Targets file: a list in ``file_sd`` form, or ``scrape_configs`` as in a prometheus.yml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, model_validator

from hypergauge.collector.discovery import prometheus_fields
from hypergauge.collector.discovery.group_targets import read_groups
from hypergauge.collector.discovery.job_config import Job
from hypergauge.collector.discovery.scrape_config import Limits, ScrapeConfig
from hypergauge.core.config.document import Document, Scalar, duration
from hypergauge.core.config.model import Items, Section, validated
from hypergauge.core.errors import BadRequest

__all__ = ["read_config"]

_INHERITED = ("scrape_interval", "scrape_timeout", *(limit.name for limit in fields(Limits)))
_EXPECTED = "expected a list of groups, each with targets and labels, or scrape_configs"


def read_config(
    path: Path, default_interval: float, notice: Callable[[str], None] = lambda _: None
) -> tuple[ScrapeConfig, ...]:
    """Read a targets file, YAML or JSON. A list becomes a job with the file's name.

    Parameters
    ----------
    default_interval
        Seconds, if ``scrape_interval`` is absent.
    notice
        Callback for the names of ignored fields, if there are any.

    Raises
    ------
    BadRequest
        The file is unreadable or has errors; the message lists all with line and column.
    """
    document = Document.read(path)
    if document.content is None:
        raise BadRequest("holds no list of targets, and no scrape_configs", file=path)
    if isinstance(document.content, list):
        config = ScrapeConfig(path.stem, default_interval, document=document, folder=path.parent)
        groups, _ = read_groups(config, document)
        return (replace(config, static=tuple(groups)),)
    if not isinstance(document.content, dict) or "targets" in document.content:
        raise document.problem((), document.content, _EXPECTED)
    context: dict[str, Any] = {"ignored": [], "interval": default_interval, "document": document, "jobs": set()}
    jobs = validated(_File, document, context).scrape_configs
    configs = tuple(job.config(path.parent, document, default_interval) for job in jobs)
    if ignored := context["ignored"]:
        notice(f"{path} has fields that the collector ignores: {', '.join(ignored)}")
    return configs


class _Global(Section):
    """Defaults of all jobs; each job validates the values that it inherits."""

    ignored: ClassVar = prometheus_fields.GLOBAL_IGNORED

    scrape_interval: Any = None
    scrape_timeout: Any = None
    body_size_limit: Any = None
    sample_limit: Any = None
    label_limit: Any = None
    label_name_length_limit: Any = None
    label_value_length_limit: Any = None


class _File(Section):
    """A prometheus.yml."""

    ignored: ClassVar = prometheus_fields.IGNORED
    unsupported: ClassVar = prometheus_fields.UNSUPPORTED

    defaults: _Global = Field(_Global(), alias="global")
    scrape_configs: Items[Job] = Field(description="a list of scrape configurations")

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, value: Any, info: ValidationInfo) -> Any:
        """Merge the defaults of ``global`` into each job."""
        common, jobs = value.get("global"), value.get("scrape_configs")
        if not isinstance(common, dict) or not isinstance(jobs, list):
            return value
        inherited = {name: common[name] for name in _INHERITED if name in common}
        default = info.context["interval"] if info.context else 1.0
        return {**value, "scrape_configs": [_below(job, inherited, default) for job in jobs]}


def _below(job: Any, inherited: dict[str, Any], default_interval: float) -> Any:
    """Return `job` with the inherited fields; an inherited timeout is limited to the job's interval."""
    if not isinstance(job, dict):
        return job
    merged = {**inherited, **job}
    if "scrape_timeout" not in job and isinstance(timeout := merged.get("scrape_timeout"), Scalar):
        interval = merged.get("scrape_interval", default_interval)
        seconds = duration(interval) if isinstance(interval, Scalar) else interval
        if isinstance(seconds, float) and (duration(timeout) or 0) > seconds:
            merged["scrape_timeout"] = interval
    return merged
