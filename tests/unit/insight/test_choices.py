"""Choices of comparisons and of exports that go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.insight.comparison.choices import check_choices
from hypergauge.insight.cost.further import further
from hypergauge.insight.export.formats import Format
from hypergauge.insight.part import Part


@pytest.mark.parametrize(
    ("by", "scope", "every"), [("run", None, True), ("row", "host", True), ("workload", None, False)]
)
def test_choices_that_go_together(by: str, scope: str | None, every: bool) -> None:
    check_choices(by, scope, every_attempt=every)


@pytest.mark.parametrize(
    ("by", "scope", "every", "names"),
    [
        ("runs", None, False, "runs"),
        ("workload", None, True, "--attempts"),
        ("run", "hosts", False, "host"),
    ],
)
def test_other_choices_are_refused(by: str, scope: str | None, every: bool, names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        check_choices(by, scope, every_attempt=every)


@pytest.mark.parametrize(
    ("name", "trace", "metrics", "expected"),
    [
        ("a.parquet", False, ["loss"], Format.SAMPLES),
        ("a.csv.gz", False, [], Format.SAMPLES),
        ("a.capsule", False, [], Format.CAPSULE),
        ("a.json", True, ["loss"], Format.TRACE),
        ("a.json.gz", True, [], Format.TRACE),
    ],
)
def test_the_name_selects_the_format(name: str, trace: bool, metrics: list[str], expected: Format) -> None:
    assert Format.of(name, trace=trace, metrics=metrics) is expected


@pytest.mark.parametrize(
    ("name", "trace", "metrics", "names"),
    [
        ("a.csv", True, [], "json"),
        ("a.json", False, [], "--trace"),
        ("a.parket", False, [], ".parquet"),
        ("samples", False, [], ".csv"),
        ("a.capsule", False, ["loss"], "-m"),
    ],
)
def test_other_names_are_refused(name: str, trace: bool, metrics: list[str], names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        Format.of(name, trace=trace, metrics=metrics)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz"])
def test_tensors_take_the_place_of_samples(name: str) -> None:
    assert Format.of(name, tensors=True, part=Part(phase="train")) is Format.TENSORS


@pytest.mark.parametrize(
    ("name", "trace", "metrics", "names"),
    [
        ("a.json", True, [], "--trace"),
        ("a.csv", False, ["loss"], "-m"),
        ("a.capsule", False, [], ".parquet, .csv or .csv.gz file, not to 'a.capsule'"),
        ("a.json", False, [], ".csv.gz"),
        ("tensors", False, [], ".csv.gz"),
    ],
)
def test_tensors_go_with_nothing_else(name: str, trace: bool, metrics: list[str], names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        Format.of(name, trace=trace, tensors=True, metrics=metrics)


def test_a_comparison_has_no_further_columns_by_default(tmp_path: Path) -> None:
    assert further(Settings(home=tmp_path), None) == []
    assert len(further(Settings(home=tmp_path), "accuracy>=0.9")) == 1
