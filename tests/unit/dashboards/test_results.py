"""Results at the top of a report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hypergauge.dashboards.report.results import results
from hypergauge.insight.comparison.entry import Entry
from hypergauge.insight.comparison.software import better, relevance
from hypergauge.insight.part import Part
from hypergauge.insight.report import Report
from hypergauge.insight.sharing.interference import Interference
from hypergauge.sql.queries.report import Work
from tests.support.data.pictures import notice


def entry(
    label: str, seconds: float, status: str = "finished", energy: float | None = None, sharing: str = "-", **fields: Any
) -> Entry:
    runs: Any = (SimpleNamespace(run_id=label, collocation=sharing),)
    values = {"duration_seconds": seconds} | ({} if energy is None else {"gpu_energy_joules": energy})
    return Entry(**{
        "label": label, "name": "train", "status": status, "runs": runs, "values": values, "scopes": {}, "software": {}, **fields,
    })  # fmt: skip


def lines(*entries: Entry, **fields: Any) -> dict[str, str]:
    """Return the results of a report with these runs of one program, by title. Their work is their name."""
    works = {one.label: Work(one.label, one.name, "train.py") for one in entries}
    found: Any = {
        "experiments": (), "runs": (), "comparisons": (SimpleNamespace(entries=entries),), "verdict": (),
        "interference": Interference("duration", (), ()), "notices": (), "charts": (), "ledger": None, "devices": {}, "highlights": {},
        "cores": (), "step_durations": None, "flames": (),
        "phases": {}, "steps": {}, "findings": {}, "qualities": {}, "works": works, **fields,
    }  # fmt: skip
    return {one.title: one.text for one in results(Report(**found))}


def test_the_best_and_the_worst_finished_runs_are_named() -> None:
    found = lines(
        entry("1/1/1", 30, energy=500, software={"val_loss": 0.3, "accuracy": 0.9}),
        entry("1/2/1", 20, energy=900, software={"val_loss": 0.1, "accuracy": 0.8}, simulated=True),
        entry("1/3/1", 1, status="failed", energy=1, software={"val_loss": 9.0}),
    )
    assert found == {
        "Fastest": "1/2/1 train *, 20.0 s (slowest: 1/1/1 train, 30.0 s)",
        "Least GPU energy": "1/1/1 train, 500 J (most: 1/2/1 train *, 900 J)",
        "Lowest val_loss": "1/2/1 train *, 0.1 (highest: 1/1/1 train, 0.3)",
        "Highest accuracy": "1/1/1 train, 0.9 (lowest: 1/2/1 train *, 0.8)",
    }


def test_a_run_is_named_with_its_way_of_sharing_and_an_even_part_is_no_candidate() -> None:
    part = entry("1/3/1", 25, energy=100, sharing="MPS", energy_divided=True)
    assert lines(entry("1/1/1", 30, energy=500), entry("1/2/1", 20, energy=900), part) == {
        "Fastest": "1/2/1 train, 20.0 s (slowest: 1/1/1 train, 30.0 s)",
        "Least GPU energy": "1/1/1 train, 500 J (most: 1/2/1 train, 900 J)",
    }
    assert lines(entry("1/1/1", 30), part) == {"Fastest": "1/3/1 train · MPS, 25.0 s (slowest: 1/1/1 train, 30.0 s)"}


def test_in_a_range_of_time_no_run_is_the_fastest() -> None:
    """The run that ended first would be, and that with the least energy."""
    runs = (
        entry("1/1/1", 30, energy=500, software={"loss": 0.3}),
        entry("1/2/1", 20, energy=900, software={"loss": 0.1}),
    )
    assert list(lines(*runs, part=Part(60, 90))) == ["Lowest loss"]
    assert list(lines(*runs, part=Part(phase="train"))) == ["Fastest", "Least GPU energy", "Lowest loss"]


def test_what_is_alike_alone_or_not_comparable_has_no_best() -> None:
    assert lines(entry("1/1/1", 30)) == {}
    assert lines(entry("1/1/1", 30), entry("1/2/1", 30)) == {}
    idle = entry("1/2/1", 30, energy=900, energy_method="whole_gpu")
    assert lines(entry("1/1/1", 30, energy=500, energy_method="sm_time"), idle) == {}
    assert lines(entry("1/1/1", 30, energy=900), entry("1/2/1", 20, name="other", energy=500)) == {}


def test_equal_runs_share_their_place() -> None:
    """Digits that are not shown decide nothing, and neither does the baseline, which comes first."""
    runs = [
        entry(label, seconds) for label, seconds in (("1/10/1", 20), ("1/9/1", 20.001), ("1/2/1", 30), ("1/3/1", 40))
    ]
    assert lines(*runs) == {"Fastest": "1/9/1 train, 1/10/1 train, 20.0 s (slowest: 1/3/1 train, 40.0 s)"}
    assert lines(*runs[:2]) == {}
    losses = [entry(f"1/{n}/1", 30, software={"elbo_loss": loss}) for n, loss in enumerate((-3.0, -2.0, -3.0), 1)]
    assert lines(*losses) == {"Lowest elbo_loss": "1/1/1 train, 1/3/1 train, -3 (highest: 1/2/1 train, -2)"}


def test_the_best_of_each_work_is_named() -> None:
    runs = [entry(f"1/{n}/1", 30 + n, name="narrow" if n < 3 else "wide" if n < 5 else "other") for n in range(6)]
    assert lines(*runs) == {
        "Fastest": "1/0/1 narrow, 30.0 s (slowest: 1/2/1 narrow, 32.0 s); 1/3/1 wide, 33.0 s (slowest: 1/4/1 wide, 34.0 s)."
        " Each compares runs of the same work."
    }


def test_software_metrics_are_compared_within_a_program() -> None:
    runs = [entry(f"1/{n}/1", 30 + n, name=f"lr {n}", software={"loss": 0.1 * n}) for n in (1, 2, 3)]
    assert lines(*runs) == {"Lowest loss": "1/1/1 lr 1, 0.1 (highest: 1/3/1 lr 3, 0.3)"}
    works = {one.label: Work(one.label, one.name, one.name) for one in runs}
    assert lines(*runs, works=works) == {}, "different programs"


def test_values_that_only_some_runs_have_are_counted() -> None:
    found = lines(entry("1/1/1", 30, energy=5), entry("1/2/1", 30, energy=9), entry("1/3/1", 30))
    assert found["Least GPU energy"].endswith("(most: 1/2/1 train, 9 J, of the 2 runs with a value)")


def test_the_first_warning_stands_for_the_others() -> None:
    assert lines(notices=(notice("one"), notice("two"), notice("three")))["Read with care"] == "one (and 2 more)"


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("loss", -1), ("val_loss", -1), ("train-logloss", -1), ("accuracy", 1), ("test_acc", 1), ("eval/f1", 1), ("rmse", -1),
        ("lr", None), ("steps_per_second", None), ("access_time", None), ("traces", None),
    ],
)  # fmt: skip
def test_the_name_of_a_metric_shows_what_is_better(name: str, sign: int | None) -> None:
    assert better(name) == sign


def test_loss_and_accuracy_come_first_and_autologged_names_last() -> None:
    names = ["training_accuracy_score", "lr", "f1", "accuracy", "mse", "val_loss"]
    assert sorted(names, key=relevance) == ["val_loss", "accuracy", "mse", "f1", "lr", "training_accuracy_score"]
