"""Groups of targets with labels: the form of ``static_configs``, ``file_sd`` and HTTP service discovery."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import yaml

from hypergauge.core.config.document import Document

__all__ = ["Group", "read_groups"]

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Group:
    """Addresses and the labels that they share, each with the node that it stands at."""

    addresses: tuple[tuple[yaml.Node, str], ...]
    labels: dict[str, tuple[yaml.Node, str]]


def read_groups(document: Document, root: yaml.Node) -> tuple[Group, ...]:
    """Return the groups of a list.

    Raises
    ------
    BadRequest
        It is no such list.
    """
    groups = (
        document.attempt(partial(_group, document, node), None)
        for node in document.items(root, "a list of groups, each with targets and labels")
    )
    return tuple(group for group in groups if group is not None)


def _group(document: Document, node: yaml.Node) -> Group:
    fields = document.fields(node, "a group, with targets and labels", ("targets", "labels"))
    if "targets" not in fields:
        document.fail(node, "the group has no targets")
    addresses = [
        (one, document.text(one, "a target as host:port"))
        for one in document.items(fields["targets"][1], "a list of targets, each as host:port")
    ]
    labels: dict[str, tuple[yaml.Node, str]] = {}
    if "labels" in fields:
        for name, (key, value) in document.fields(fields["labels"][1], "labels, each as name: value").items():
            if not _LABEL.fullmatch(name):
                document.fail(key, f"{name!r} cannot be a label's name: letters, digits and underscores only")
            labels[name] = value, document.text(value, f"a string as the value of label {name!r}")
    return Group(tuple(addresses), labels)
