"""Targets of groups in a document: a targets file, a file that it names, or the answer of a service.

Only collectors with a targets file import this module, and late: see `hypergauge.core.config.model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypergauge.collector.discovery.groups import Group
from hypergauge.collector.discovery.scrape_config import ScrapeConfig
from hypergauge.collector.discovery.targets import Key, Target, TargetRefused, populate
from hypergauge.core.config.document import Document, Scalar
from hypergauge.core.config.model import Items, validated
from hypergauge.core.errors import Problems

__all__ = ["read_groups", "targets_of"]


def targets_of(
    config: ScrapeConfig, document: Document, groups: Sequence[Group], meta: Mapping[str, str] | None = None
) -> list[Target]:
    """Return the targets that `config` makes of the groups in `document`, without those that its rules drop.

    Parameters
    ----------
    meta
        Labels for the origin of the groups.

    Raises
    ------
    BadRequest
        A target is invalid, or two are equal.
    """
    found: dict[Key, tuple[Target, int]] = {}
    problems = Problems()

    def add(group: Group, labels: Mapping[str, str], address: Scalar) -> None:
        try:
            target = populate(config, {**labels, "__address__": str(address)})
        except TargetRefused as refused:
            document.fail(group.labels.get(Scalar(refused.label), address), str(refused))
        if target is None:
            return
        known, line = found.setdefault(target.key, (target, address.line))
        if known is not target and (known != target or not config.relabel):
            what = f"target {str(address)!r} stands already in line {line}"
            document.fail(address, what if known == target else f"{what}, with the same job and instance")

    for group in groups:
        shared = {str(name): str(value) for name, value in group.labels.items()} | dict(meta or {})
        for address in group.targets:
            with problems.attempt():
                add(group, shared, address)
    problems.check()
    return [target for target, _ in found.values()]


def read_groups(
    config: ScrapeConfig, document: Document, meta: Mapping[str, str] | None = None
) -> tuple[list[Group], list[Target]]:
    """Return the groups in a document that is a list of groups, and the targets that `config` makes of them.

    Raises
    ------
    BadRequest
        The document is not such a list, or groups or targets have errors; the message lists all with line and column.
    """
    context: dict[str, Any] = {"groups": []}
    groups: list[Group] = context["groups"]
    targets: list[Target] = []
    problems = Problems()
    with problems.attempt():
        validated(Items[Group], document, context)
    with problems.attempt():
        targets = targets_of(config, document, groups, meta)
    problems.check()
    return groups, targets
