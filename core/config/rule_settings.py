"""Settings of rules and actions in ``bench.toml``: ``[rules]``, ``[rules.NAME]``, ``[actions.NAME]``.

Only this file says what a webhook or a command is; rows of an experiment file name them. An address may hold a token, so
it stands in no message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypergauge.core import durations
from hypergauge.core.config.settings import sections
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["BUILT_IN", "MARK", "STOP_RUN", "STOP_WORKLOAD", "Action", "RuleSection", "RuleSettings"]

BUILT_IN = MARK, STOP_RUN, STOP_WORKLOAD = "mark", "stop-run", "stop-workload"

_ACTION = re.compile(r"[A-Za-z][\w.-]*")
_EVERY = timedelta(seconds=0.5), timedelta(hours=1)
_LIMIT = timedelta(milliseconds=50), timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Action:
    """A section ``[actions.NAME]``: exactly one of `webhook` and `command` is set.

    Attributes
    ----------
    webhook
        The address that the facts are posted to, as JSON.
    command
        A program and its arguments, which no shell sees.
    folder
        That of the file; a command's working directory.
    """

    name: str
    folder: Path
    webhook: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class RuleSection:
    """A section ``[rules.NAME]``: values of its parameters, what is done when it fires, whether it is asked at all."""

    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    actions: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """All that a ``bench.toml`` says of rules.

    Attributes
    ----------
    file
        The file; ``None`` where there is none, which means the defaults.
    preset
        The set of values that counts where a rule has it.
    folder
        Where rules of the user's own lie; ``None`` where there are none.
    every, limit
        The time between two looks at a run, and that a rule may take for one.
    rules, actions
        The sections, by name.
    """

    file: Path | None = None
    preset: str | None = None
    folder: Path | None = None
    every: timedelta = timedelta(seconds=10)
    limit: timedelta = timedelta(seconds=5)
    rules: Mapping[str, RuleSection] = field(default_factory=dict, hash=False)
    actions: Mapping[str, Action] = field(default_factory=dict, hash=False)

    @classmethod
    def read(cls, file: Path | None) -> RuleSettings:
        """Read a ``bench.toml``, see `hypergauge.core.config.settings.config_file`.

        Raises
        ------
        BadRequest
            It holds something that is not known, or names an action that has no section.
        """
        if file is None:
            return cls()
        actions = {name: _action(name, section, file) for name, section in sections(file, "actions").items()}
        content = sections(file, "rules")
        rules = {
            name: _rule(name, content.pop(name), actions, file)
            for name in [name for name, value in content.items() if isinstance(value, dict)]
        }
        for name in content:
            if name not in _KEYS:
                raise BadRequest(f"[rules]: unknown setting {name!r}{did_you_mean(name, _KEYS)}", file=file)
        try:
            given = {name: _KEYS[name](name, value, file) for name, value in content.items()}
        except BadRequest as error:
            raise BadRequest(f"[rules]: {error}", file=file) from None
        return cls(**{"file": file, "folder": file.parent / "rules", "rules": rules, "actions": actions, **given})

    def values(self, rule: str) -> Mapping[str, Any]:
        """Return the values that a rule's parameters are given."""
        return self.rules[rule].values if rule in self.rules else {}

    def action_names(self) -> tuple[str, ...]:
        """Return what may be asked for when a rule fires."""
        return (*BUILT_IN, *self.actions)


def _duration(least: timedelta, most: timedelta) -> Callable[[str, object, Path], timedelta]:
    def read(name: str, value: object, _: Path) -> timedelta:
        if not isinstance(value, str):
            raise BadRequest(f"{name} is {value!r}, but must be a duration such as '10 s'")
        found = durations.parse(value)
        if not least <= found <= most:
            raise BadRequest(
                f"{name} is {value}, but must lie between {durations.words(least)} and {durations.words(most)}"
            )
        return found

    return read


def _text(name: str, value: object, _: Path) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"{name} is {value!r}, but must be a string")
    return value


def _folder(name: str, value: object, file: Path) -> Path:
    folder = file.parent / Path(_text(name, value, file)).expanduser()
    if not folder.is_dir():
        raise BadRequest(f"there is no folder {str(folder)!r}")
    return folder


_KEYS: Mapping[str, Callable[[str, object, Path], Any]] = {
    "preset": _text,
    "folder": _folder,
    "every": _duration(*_EVERY),
    "limit": _duration(*_LIMIT),
}


def _rule(name: str, section: dict[str, Any], actions: Mapping[str, Action], file: Path) -> RuleSection:
    where = f"[rules.{name}]"
    values = dict(section)
    named, enabled = values.pop("actions", []), values.pop("enabled", True)
    if not _are_strings(named):
        raise BadRequest(f"{where}: actions must be a list of strings", file=file)
    if not isinstance(enabled, bool):
        raise BadRequest(f"{where}: enabled must be true or false", file=file)
    for action in named:
        if action not in (*BUILT_IN, *actions):
            near = did_you_mean(action, (*BUILT_IN, *actions))
            raise BadRequest(f"{where}: there is no action {action!r}{near}", file=file)
    return RuleSection(values, tuple(dict.fromkeys(named)), enabled)


def _action(name: str, section: object, file: Path) -> Action:
    where = f"[actions.{name}]"
    if not isinstance(section, dict):
        raise BadRequest(f"actions.{name} must be a section {where}", file=file)
    if name in BUILT_IN or not _ACTION.fullmatch(name):
        what = "is what it is already" if name in BUILT_IN else "is no name: a letter, then letters, digits, - _ ."
        raise BadRequest(f"{where}: {name!r} {what}", file=file)
    for key in section:
        if key not in ("webhook", "command"):
            raise BadRequest(f"{where}: unknown setting {key!r}{did_you_mean(key, ['webhook', 'command'])}", file=file)
    webhook, command = section.get("webhook"), section.get("command", [])
    if (webhook is None) == ("command" not in section):
        raise BadRequest(f"{where} must have a webhook or a command, and one of them alone", file=file)
    if webhook is not None and not _is_http(webhook):
        raise BadRequest(f"{where}: webhook must be an http or https URL", file=file)
    if not _are_strings(command) or (webhook is None and not command):
        raise BadRequest(f"{where}: command must be a list of strings, the program first", file=file)
    return Action(name, file.parent, webhook, tuple(command))


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_http(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
