"""Conditions of ``--fail-on``, good and bad."""

from __future__ import annotations

import re

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight.regression.conditions import Condition


@pytest.mark.parametrize(
    ("text", "metric", "rises", "change", "bound"),
    [
        ("step_time>+3%", "step_time", True, 0.03, None),
        (" throughput < -2.5 % ", "throughput", False, -0.025, None),
        ("gpu_power>-5%", "gpu_power", True, -0.05, None),
        ("val/f1 score<+0%", "val/f1 score", False, 0.0, None),
        ("gpu_memory_used>20GiB", "gpu_memory_used", True, None, 20 * 2**30),
        ("duration>1.5 h", "duration", True, None, 5400),
        ("step_time>250ms", "step_time", True, None, 0.25),
        ("gpu_utilization<80%", "gpu_utilization", False, None, 0.8),
        ("energy>0.1kWh", "energy", True, None, 3.6e5),
        ("loss>1e-3", "loss", True, None, 0.001),
    ],
)
def test_conditions(text: str, metric: str, rises: bool, change: float | None, bound: float | None) -> None:
    found = Condition.parse(text)
    assert (found.text, found.metric, found.rises) == (text, metric, rises)
    assert found.change == pytest.approx(change)
    assert found.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step_time", "is not a condition: write a change with its sign, such as 'step_time>+3%'"),
        ("step_time>=+3%", "is not a condition"),
        ("step_time>+3", "is not a condition"),
        ("step_time>-3s", "is not a condition"),
        (">+3%", "is not a condition"),
        ("step_time>+3%,energy>+5%", "is not a condition"),
        ("memory>20GB", "unknown unit 'GB' (did you mean 'GiB'?)"),
        ("throughput<-100%", "100 %"),
    ],
)
def test_what_is_no_condition(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(message)):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("step_time>3%", "seconds", "step_time is in seconds; for a change write 'step_time>+3%'"),
        ("accuracy<5%", "", "accuracy is in no unit; for a change write 'accuracy<-5%'"),
        ("duration>20GiB", "seconds", "duration is in seconds, not in bytes"),
    ],
)
def test_a_bound_is_in_the_unit_of_its_metric(text: str, unit: str, message: str) -> None:
    condition = Condition.parse(text)
    with pytest.raises(BadRequest, match=re.escape(message)):
        condition.check_unit(unit)
    Condition.parse("duration>3").check_unit("seconds")
    Condition.parse("gpu_utilization<80%").check_unit("ratio")
