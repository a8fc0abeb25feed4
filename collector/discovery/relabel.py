"""Relabeling of targets and series, with Prometheus's rules.

Source: prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config. Regular expressions are RE2,
which Prometheus's library is a port of: the same syntax, and linear time on any text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import re2

__all__ = ["ACTIONS", "Action", "Rule", "RuleRefused", "relabel"]

Action = Literal[
    "replace", "keep", "drop", "keepequal", "dropequal", "hashmod",
    "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase",
]  # fmt: skip
ACTIONS: tuple[Action, ...] = get_args(Action)

# A label's name is any text, as in Prometheus 3; PostgreSQL stores neither a NUL nor invalid UTF-8.
_NAME = re.compile("[^\0\ud800-\udfff]+")
_REFERENCE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})")
_NEED_TARGET = ("replace", "hashmod", "lowercase", "uppercase", "keepequal", "dropequal")


class RuleRefused(ValueError):
    """A rule without effect or meaning; `field` is the invalid field."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Rule:
    """Relabeling rule; names and defaults are Prometheus's.

    Raises
    ------
    RuleRefused
        The rule lacks a field that its action needs, or has one that its action does not use.
    """

    action: Action = "replace"
    source_labels: tuple[str, ...] = ()
    separator: str = ";"
    regex: str = "(.*)"
    target_label: str = ""
    replacement: str = "$1"
    modulus: int = 0

    def __post_init__(self) -> None:
        compiled(self.regex)
        if self.action == "hashmod" and not self.modulus:
            raise RuleRefused("modulus", "hashmod needs a modulus above 0")
        if self.action in _NEED_TARGET and not self.target_label:
            raise RuleRefused("target_label", f"{self.action} needs a target_label")
        if self.action in _NEED_TARGET and not _NAME.fullmatch(self.target_label):
            raise RuleRefused("target_label", f"{self.target_label!r} cannot be a label's name")
        if self.action == "labelmap" and not _NAME.fullmatch(self.replacement):
            raise RuleRefused("replacement", f"{self.replacement!r} cannot be a label's name")
        for name in self._unused():
            if getattr(self, name) != getattr(_DEFAULTS, name):
                raise RuleRefused(name, f"{self.action} does not use {name}")

    def _unused(self) -> tuple[str, ...]:
        """Return the fields that Prometheus refuses together with the action."""
        if self.action in ("labeldrop", "labelkeep"):
            return "source_labels", "target_label", "modulus", "separator", "replacement"
        if self.action in ("keepequal", "dropequal"):
            return "regex", "modulus", "separator", "replacement"
        if self.action in ("lowercase", "uppercase"):
            return ("replacement",)
        return ()


@dataclass(frozen=True, slots=True)
class _Defaults:
    source_labels: tuple[str, ...] = ()
    separator: str = ";"
    regex: str = "(.*)"
    target_label: str = ""
    replacement: str = "$1"
    modulus: int = 0


_DEFAULTS = _Defaults()


def relabel(labels: Mapping[str, str], rules: Iterable[Rule]) -> dict[str, str] | None:
    """Return `labels` after all `rules`, ``None`` if a rule drops them. An empty value removes its label."""
    found = {name: value for name, value in labels.items() if value}
    for rule in rules:
        if not _apply(rule, found):
            return None
    return found


def _apply(rule: Rule, labels: dict[str, str]) -> bool:
    """Change `labels`; return whether the rule keeps them."""
    joined = rule.separator.join(labels.get(name, "") for name in rule.source_labels)
    match rule.action:
        case "keep" | "drop":
            return (compiled(rule.regex).fullmatch(joined) is not None) == (rule.action == "keep")
        case "keepequal" | "dropequal":
            return (labels.get(rule.target_label, "") == joined) == (rule.action == "keepequal")
        case "replace":
            if (found := compiled(rule.regex).fullmatch(joined)) is not None:
                name = _expand(rule.target_label, found)
                if _NAME.fullmatch(name):
                    _set(labels, name, _expand(rule.replacement, found))
        case "lowercase" | "uppercase" | "hashmod":
            _set(labels, rule.target_label, _changed(rule, joined))
        case _:
            _apply_to_names(rule, labels)
    return True


def _changed(rule: Rule, joined: str) -> str:
    if rule.action == "hashmod":
        # The last 8 bytes of MD5, big-endian, as in Prometheus: both assign the same shards.
        digest = hashlib.md5(joined.encode(), usedforsecurity=False).digest()
        return str(int.from_bytes(digest[8:], "big") % rule.modulus)
    # Letter by letter, as in Go. Python maps some letters to two.
    if rule.action == "lowercase":
        return "".join(letter.lower()[0] for letter in joined)
    return "".join(large if len(large := letter.upper()) == 1 else letter for letter in joined)


def _apply_to_names(rule: Rule, labels: dict[str, str]) -> None:
    for name, value in list(labels.items()):
        found = compiled(rule.regex).fullmatch(name)
        if rule.action == "labelmap":
            if found is not None and (mapped := _expand(rule.replacement, found)):
                _set(labels, mapped, value)
        elif (found is not None) == (rule.action == "labeldrop"):
            del labels[name]


def _set(labels: dict[str, str], name: str, value: str) -> None:
    if value:
        labels[name] = value
    else:
        labels.pop(name, None)


def _expand(template: str, match: Any) -> str:
    """Expand ``$1``, ``${1}``, ``$name`` and ``$$``, as Go does: a missing group is empty."""

    def group(reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        if name is None:
            return "$"
        try:
            return match.group(int(name) if name.isdecimal() else name) or ""
        except IndexError:
            return ""

    return _REFERENCE.sub(group, template)


_COMPILED: dict[str, Any] = {}


def compiled(regex: str) -> Any:
    """Return `regex` compiled; ``.`` also matches a newline, as in Prometheus.

    Raises
    ------
    RuleRefused
        RE2 does not accept it.
    """
    if regex not in _COMPILED:
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True
        try:
            _COMPILED[regex] = re2.compile(regex, options)
        except re2.error as error:
            message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error.args[0]
            raise RuleRefused("regex", f"not a regular expression of RE2: {message}") from None
    return _COMPILED[regex]
