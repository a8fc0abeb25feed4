"""Parameters of rules that users set or try one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight.rules.assignments import Trials, assigned, known_rule
from hypergauge.insight.rules.chosen import ChosenRules


@pytest.fixture
def chosen() -> ChosenRules:
    return ChosenRules.read(None)


def test_assigned_values_replace_those_of_the_settings(chosen: ChosenRules) -> None:
    before = assigned(chosen, [])
    assert before == {name: one.values for name, one in chosen.known.items()}
    after = assigned(chosen, ["IdleDevice.threshold=0.1", "IdleDevice.threshold=0.25"])
    assert after["IdleDevice"] == {**before["IdleDevice"], "threshold": 0.25}
    assert {name: values for name, values in after.items() if name != "IdleDevice"} == {
        name: values for name, values in before.items() if name != "IdleDevice"
    }


def test_trials_are_values_of_the_parameter(chosen: ChosenRules) -> None:
    found = Trials.parse(chosen, "IdleDevice.threshold=0.05,0.1")
    assert (found.rule.name, found.parameter.name, found.values) == ("IdleDevice", "threshold", [0.05, 0.1])
    name, parameter = next(
        (rule.rule.name, one.name)
        for rule in chosen.known.values()
        for one in rule.rule.parameters.values()
        if isinstance(one.default, timedelta)
    )
    assert Trials.parse(chosen, f"{name}.{parameter}=5 s,1 min").values == [
        timedelta(seconds=5),
        timedelta(minutes=1),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("IdleDevice", "RULE.PARAMETER=VALUE"),
        ("IdleDevice.threshold=", "RULE.PARAMETER=VALUE"),
        ("IdleDevise.threshold=1", "IdleDevice"),
        ("IdleDevice.treshold=1", "threshold"),
        ("IdleDevice.threshold=low", "low"),
    ],
)
def test_a_bad_assignment_is_refused(chosen: ChosenRules, text: str, names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        assigned(chosen, [text])
    with pytest.raises(BadRequest, match=names):
        Trials.parse(chosen, text)


def test_an_unknown_rule_is_refused(chosen: ChosenRules) -> None:
    assert known_rule(chosen, "IdleDevice") is chosen.known["IdleDevice"].rule
    with pytest.raises(BadRequest, match="IdleDevice"):
        known_rule(chosen, "IdleDevise")
