"""Rules that apply to a run, with their parameters and actions, from ``bench.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hypergauge.core.config.rule_settings import RuleSettings
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight import rules
from hypergauge.insight.rules.rule import Rule, Value

__all__ = ["ChosenRule", "ChosenRules"]


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """A rule with the values of its parameters and its actions."""

    rule: Rule
    values: Mapping[str, Value]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """The rules of some settings.

    Attributes
    ----------
    known
        All rules by name.
    off
        Names of disabled rules.
    """

    settings: RuleSettings
    known: Mapping[str, ChosenRule]
    off: tuple[str, ...]

    @property
    def enabled(self) -> tuple[ChosenRule, ...]:
        """Enabled rules."""
        return tuple(one for name, one in self.known.items() if name not in self.off)

    @classmethod
    def read(cls, file: Path | None, *, preset: str | None = None, folder: Path | None = None) -> ChosenRules:
        """Read the rules of a ``bench.toml``; without one, the built-in rules with their defaults.

        Parameters
        ----------
        preset, folder
            Instead of the file's.

        Raises
        ------
        BadRequest
            A file is invalid, or a rule, parameter or preset is unknown.
        """
        settings = RuleSettings()
        if file is not None:
            from hypergauge.core.config.rule_sections import read_rules  # pydantic would delay runs without a file

            settings = read_rules(file)
        settings = replace(settings, preset=preset or settings.preset, folder=folder or settings.folder)
        own = settings.folder
        known = rules.load([own] if own is not None and (folder is not None or own.is_dir()) else [])
        rules.check_preset(known, preset)
        try:
            rules.check_preset(known, settings.preset)
            for name in settings.rules:
                if name not in known:
                    raise BadRequest(f"[rules.{name}]: there is no rule {name!r}{did_you_mean(name, known)}")
            chosen = {name: _chosen(rule, settings) for name, rule in known.items()}
        except BadRequest as error:
            raise BadRequest(str(error), file=file) from None
        return cls(settings, chosen, tuple(name for name, section in settings.rules.items() if not section.enabled))


def _chosen(rule: Rule, settings: RuleSettings) -> ChosenRule:
    section = settings.rules.get(rule.name)
    return ChosenRule(
        rule, rule.values(settings.preset, settings.values(rule.name)), section.actions if section else ()
    )
