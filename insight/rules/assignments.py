"""Values of parameters that the user sets in place of those of the settings, or tries one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.rules.chosen import ChosenRules
from hypergauge.insight.rules.rule import Parameter, Rule, Value

__all__ = ["Trials", "assigned", "known_rule"]

_ASSIGNMENT = re.compile(r"(\w+)\.(\w+)=(.+)")


@dataclass(frozen=True, slots=True)
class Trials:
    """Values of one parameter of a rule, to try one by one."""

    rule: Rule
    parameter: Parameter
    values: Sequence[Value]

    @classmethod
    def parse(cls, chosen: ChosenRules, text: str) -> Trials:
        """Parse ``--sweep``: ``RULE.PARAMETER=VALUE,…``.

        Raises
        ------
        BadRequest
            The text has another form, or the rule, the parameter or a value is invalid.
        """
        name, parameter, values = _assignment("--sweep", text)
        rule = known_rule(chosen, name)
        return cls(
            rule,
            rule.parameter(parameter),
            [rule.values(None, {parameter: value})[parameter] for value in values.split(",")],
        )


def assigned(chosen: ChosenRules, given: Iterable[str]) -> dict[str, Mapping[str, Value]]:
    """Return the parameters of all rules from the settings, overridden by those of ``--set``.

    Raises
    ------
    BadRequest
        An assignment is not ``RULE.PARAMETER=VALUE``, or the rule, the parameter or the value is invalid.
    """
    values = {name: dict(chosen.settings.values(name)) for name in chosen.known}
    for text in given:
        name, parameter, value = _assignment("--set", text)
        values[known_rule(chosen, name).name][parameter] = value
    return {name: one.rule.values(chosen.settings.preset, values[name]) for name, one in chosen.known.items()}


def known_rule(chosen: ChosenRules, name: str) -> Rule:
    """Return a rule by its name.

    Raises
    ------
    BadRequest
        There is no such rule.
    """
    if name not in chosen.known:
        raise BadRequest(f"there is no rule {name!r}{did_you_mean(name, chosen.known)}")
    return chosen.known[name].rule


def _assignment(option: str, text: str) -> tuple[str, str, str]:
    if (found := _ASSIGNMENT.fullmatch(text)) is None:
        raise BadRequest(f"{option} is {text!r}, but must be RULE.PARAMETER=VALUE, such as IdleDevice.threshold=0.1")
    return found[1], found[2], found[3]
