"""Settings of rules and actions in ``bench.toml``: ``[rules]``, ``[rules.NAME]``, ``[actions.NAME]``.

Only this file defines webhooks and commands; rows of an experiment file refer to them by name. An address may hold a
token, so no message shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

__all__ = ["BUILT_IN", "MARK", "PROFILE", "STOP_RUN", "STOP_WORKLOAD", "Action", "RuleSection", "RuleSettings"]

BUILT_IN = MARK, PROFILE, STOP_RUN, STOP_WORKLOAD = "mark", "profile", "stop-run", "stop-workload"


@dataclass(frozen=True, slots=True)
class Action:
    """Section ``[actions.NAME]``: exactly one of `webhook` and `command` is set.

    Attributes
    ----------
    webhook
        Address for the facts, posted as JSON.
    command
        Program and its arguments, started without a shell.
    folder
        Folder of the file; a command's working directory.
    """

    name: str
    folder: Path
    webhook: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class RuleSection:
    """Section ``[rules.NAME]``: values of its parameters, its actions, and whether it is evaluated."""

    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    actions: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Rules and actions of a ``bench.toml``.

    Attributes
    ----------
    file
        The file; ``None`` for the defaults, without a file.
    preset
        Set of values for the rules that have it.
    folder
        Folder of the user's own rules; ``None`` if there are none.
    every, limit
        Time between two evaluations of a run, and the timeout of one rule in an evaluation.
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

    def values(self, rule: str) -> Mapping[str, Any]:
        """Return the configured values of a rule's parameters."""
        return self.rules[rule].values if rule in self.rules else {}

    def action_names(self) -> tuple[str, ...]:
        """Return the actions that rules may name."""
        return (*BUILT_IN, *self.actions)
