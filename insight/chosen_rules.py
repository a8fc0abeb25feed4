"""Which rules are asked about a run, with which values, and what is done when they fire: as its ``bench.toml`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BadRequest, did_you_mean
from bench.rule_settings import RuleSettings
from insight import rules
from insight.rules import Rule, Value

__all__ = ["ChosenRule", "ChosenRules"]


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """A rule that is asked, with the values of its parameters and what is done whenever it fires."""

    rule: Rule
    values: Mapping[str, Value]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """The rules of some settings.

    Attributes
    ----------
    asked
        Those that are asked.
    off
        The names of those that are switched off.
    """

    settings: RuleSettings
    asked: tuple[ChosenRule, ...]
    off: tuple[str, ...]

    @classmethod
    def read(cls, file: Path | None) -> ChosenRules:
        """Read the rules of a ``bench.toml``; without one, all of ours with their defaults.

        Raises
        ------
        BadRequest
            The file is wrong, or a rule's, or there is no such rule, parameter or preset.
        """
        settings = RuleSettings.read(file)
        own = [settings.folder] if settings.folder is not None and settings.folder.is_dir() else []
        known = rules.load(own)
        try:
            rules.check_preset(known, settings.preset)
            for name in settings.rules:
                if name not in known:
                    raise BadRequest(f"[rules.{name}]: there is no rule {name!r}{did_you_mean(name, known)}")
            asked = tuple(_chosen(rule, settings) for rule in known.values())
        except BadRequest as error:
            raise BadRequest(str(error), file=file) from None
        off = tuple(name for name, section in settings.rules.items() if not section.enabled)
        return cls(settings, tuple(one for one in asked if one.rule.name not in off), off)


def _chosen(rule: Rule, settings: RuleSettings) -> ChosenRule:
    section = settings.rules.get(rule.name)
    values = rule.values(settings.preset, section.values if section else None)
    return ChosenRule(rule, values, section.actions if section else ())
