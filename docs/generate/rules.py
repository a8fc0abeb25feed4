"""Built-in rules, from their files."""

from __future__ import annotations

from docs.generate.markdown import table
from hypergauge.core import durations
from hypergauge.insight import rules
from hypergauge.insight.rules import PRESETS, Rule, Value

__all__ = ["sections", "words"]


def sections() -> str:
    """Return a section for each rule, in the order of ``bench rules list``."""
    return "\n\n".join(_section(rule) for rule in rules.load().values())


def words(value: Value) -> str:
    """Return the value of a parameter as in a rule's file."""
    return f"{value:g}" if isinstance(value, float) else durations.words(value)


def _section(rule: Rule) -> str:
    parts = [f"### {rule.name}", f"{rule.means} Severity: `{rule.severity}`.", rule.advice]
    if rule.parameters:
        parts.append(table(["parameter", *(f"`{name}`" for name in PRESETS), "meaning"], _parameters(rule)))
    return "\n\n".join(part for part in parts if part)


def _parameters(rule: Rule) -> list[list[str]]:
    presets = [rule.values(preset) for preset in PRESETS]
    return [
        [f"`{name}`", *(f"{words(values[name])} {one.unit}".rstrip() for values in presets), one.help]
        for name, one in rule.parameters.items()
    ]
