"""Models of the sections ``[rules]``, ``[rules.NAME]`` and ``[actions.NAME]`` of a ``bench.toml``."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from hypergauge.core import durations
from hypergauge.core.config.bench_toml import sections
from hypergauge.core.config.model import Flag, Items, Refused, Section, Tables, validated
from hypergauge.core.config.rule_settings import BUILT_IN, Action, RuleSection, RuleSettings
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["read_rules"]

_ACTION = re.compile(r"[A-Za-z][\w.-]*")


def read_rules(file: Path | None) -> RuleSettings:
    """Return the rules and actions of a ``bench.toml``; without one, the defaults.

    Raises
    ------
    BadRequest
        The file has unknown content, or names an action that has no section.
    """
    if file is None:
        return RuleSettings()
    content = {kind: sections(file, kind) for kind in ("actions", "rules")}
    found = validated(_File, Tables(file, content), {"folder": file.parent})
    given = found.rules
    named = given.__pydantic_extra__ or {}
    return RuleSettings(
        file=file,
        preset=given.preset,
        folder=given.folder or file.parent / "rules",
        every=given.every,
        limit=given.limit,
        rules={
            name: RuleSection(rule.model_extra or {}, tuple(dict.fromkeys(rule.actions)), rule.enabled)
            for name, rule in named.items()
        },
        actions={
            name: Action(name, file.parent, one.webhook, tuple(one.command or ()))
            for name, one in found.actions.items()
        },
    )


def _duration(least: timedelta, most: timedelta) -> BeforeValidator:
    def parse(value: Any, info: ValidationInfo) -> timedelta:
        if not isinstance(value, str):
            raise ValueError(f"{info.field_name} must be a duration such as '10 s'")
        try:
            found = durations.parse(value)
        except BadRequest as error:
            raise ValueError(str(error)) from None
        if not least <= found <= most:
            limits = f"between {durations.words(least)} and {durations.words(most)}"
            raise ValueError(f"{info.field_name} is {value}, but must lie {limits}")
        return found

    return BeforeValidator(parse)


def _existing(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        return value
    folder: Path = (info.context or {})["folder"] / Path(value).expanduser()
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}")
    return folder


class _Action(Section):
    """Section ``[actions.NAME]``."""

    expected: ClassVar = "a section [actions.NAME]"

    webhook: str | None = Field(None, description="an http or https URL")
    command: Items[str] | None = Field(None, description="a list of strings, the program first")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.webhook is None) == (self.command is None):
            raise Refused(None, "it must have a webhook or a command, and one of them alone")
        if self.webhook is not None and not _is_http(self.webhook):
            raise Refused("webhook", "webhook must be an http or https URL")
        if self.command == ():
            raise Refused("command", "command must be a list of strings, the program first")
        return self


class _Rule(Section):
    """Section ``[rules.NAME]``; its other settings are the rule's parameters."""

    model_config = ConfigDict(extra="allow")

    actions: Items[str] = Field((), description="a list of strings")
    enabled: Flag = True


class _Rules(Section):
    """Section ``[rules]``."""

    model_config = ConfigDict(extra="allow")
    others: ClassVar = _Rule
    __pydantic_extra__: dict[str, _Rule]

    preset: str | None = None
    folder: Annotated[Path | None, BeforeValidator(_existing)] = Field(None, description="a string")
    every: Annotated[timedelta, _duration(timedelta(seconds=0.5), timedelta(hours=1))] = timedelta(seconds=10)
    limit: Annotated[timedelta, _duration(timedelta(milliseconds=50), timedelta(minutes=10))] = timedelta(seconds=5)


class _File(Section):
    """Sections of a ``bench.toml`` about rules and actions."""

    actions: dict[str, _Action]
    rules: _Rules

    @field_validator("actions", mode="before")
    @classmethod
    def _names(cls, actions: dict[str, Any]) -> dict[str, Any]:
        for name in actions:
            if name in BUILT_IN:
                raise Refused(name, f"there is an action {name!r} already")
            if not _ACTION.fullmatch(name):
                raise Refused(name, f"{name!r} is not a valid name: use a letter, then letters, digits, - _ .")
        return actions

    @field_validator("rules")
    @classmethod
    def _known_actions(cls, rules: _Rules, info: ValidationInfo) -> _Rules:
        known = (*BUILT_IN, *info.data.get("actions", ()))
        for name, rule in (rules.__pydantic_extra__ or {}).items():
            for action in rule.actions:
                if action not in known and "actions" in info.data:
                    raise Refused(name, f"there is no action {action!r}{did_you_mean(action, known)}")
        return rules


def _is_http(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
