"""Attempts of a row: each alone, and their mean."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.chosen import ChosenQuantities
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.trust import trust
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.runs.selection import list_experiments, select_runs
from tests.support.world import World


@pytest.fixture
def rows(world: World) -> None:
    """A row with attempts of 10, 12 and 14 s and one that failed after 1 s, and one with a single attempt of 6 s."""
    start = time.time() // 600 * 600 - 3600
    for attempt, seconds in enumerate((10, 12, 14), 1):
        run_id = world.run(start, start + seconds, attempt=attempt)
        store_software_metrics(world.connection, run_id, [SoftwareMetric("loss", 1, start + 1, seconds / 10)])
        start += 60
    world.end(world.run(start, attempt=4), start, start + 1, status="failed")
    world.run(start + 60, start + 66, position=2, name="other")


def shown(found: Comparison) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(comparison_table(sheet(found)))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.usefixtures("rows")
def test_each_attempt_has_a_line_where_all_are_selected(world: World) -> None:
    latest = compare(world.connection, ["20"])
    assert [entry.label for entry in latest.entries] == ["20/1/1", "20/1/2"]
    found = compare(world.connection, ["20"], every_attempt=True, baseline="20/1/1@1")
    assert [(one.label, one.status, one.values["duration_seconds"]) for one in found.entries] == [
        ("20/1/1@1", "finished", 10),
        ("20/1/1@2", "finished", 12),
        ("20/1/1@3", "finished", 14),
        ("20/1/1@4", "failed", 1),
        ("20/1/2", "finished", 6),
    ]
    assert found.baseline == "20/1/1@1"
    assert found.entries[1].changes["duration_seconds"] == pytest.approx(0.2)
    assert shown(found).count("(baseline)") == 1


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (("failed", "finished"), "finished"),
        (("finished", "timeout"), "timeout"),
        (("stopped", "failed", "finished"), "finished"),
        (("failed", "finished", "running"), "running"),
        (("running", "failed"), "failed"),
    ],
)
def test_the_status_of_a_row_is_that_of_its_latest_attempt(world: World, statuses: Sequence[str], status: str) -> None:
    start = time.time() // 600 * 600 - 3600
    runs = [world.run(start + 60 * at, start + 60 * at + 10, attempt=at + 1) for at in range(len(statuses))]
    for run, its in zip(runs, statuses, strict=True):
        world.connection.execute("update runs set status = %s where run_id = %s", (its, run))
    for baseline in (None, "20/1/1"):
        assert [one.status for one in compare(world.connection, ["20"], by="row", baseline=baseline).entries] == [
            status
        ]
    assert world.connection.execute("select status from run_results(%s)", (runs,)).fetchall() == [(status,)]
    [listed] = list_experiments(world.connection)
    assert listed.finished == (status == "finished")
    named = [f"20/1/1@{at}" for at in range(1, len(statuses))]
    assert [one.status for one in compare(world.connection, named, by="row").entries] == [statuses[-2]]


@pytest.mark.usefixtures("rows")
def test_named_attempts_are_distinguished(world: World) -> None:
    found = compare(world.connection, ["20/1/1@1", "20/1/1@3"])
    assert [entry.label for entry in found.entries] == ["20/1/1@1", "20/1/1@3"]
    assert not list(neighbours.facts(found, neighbours.of_comparison(world.connection, found)))


@pytest.mark.usefixtures("rows")
def test_a_row_has_the_mean_of_the_attempts_that_finished(world: World) -> None:
    found = compare(world.connection, ["20"], by="row", baseline="20/1/2")
    other, row = found.as_dict()["rows"]
    assert (row["row"], row["status"], row["attempts"], row["counted_attempts"]) == (
        "20/1/1", "failed", [1, 2, 3, 4], (1, 2, 3),
    )  # fmt: skip
    assert (row["duration_seconds"], row["final_loss"]) == (12, pytest.approx(1.2))
    assert row["deviations"] == {"duration_seconds": pytest.approx(2), "loss": pytest.approx(0.2)}
    assert row["spread"]["duration_seconds"] == {"min": 10, "max": 14}
    assert row["changes"]["duration_seconds"] == pytest.approx(1)
    assert "makespan_seconds" not in row
    assert (other["row"], other["attempts"], other["deviations"]) == ("20/1/2", [1], {})
    text = shown(found)
    assert "12.0 s ± 2.0 s (+100%)" in text
    assert "3 of 4" in text
    [left_out] = [one for one in trust(world.connection, found).notices if one.code == "ended_early"]
    assert left_out.runs == ["20/1/1"]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("by", ["row", "workload"])
def test_a_mean_needs_a_value_of_each_attempt(world: World, by: str) -> None:
    """Those that have one, such as a loss that is no NaN, are no sample of all."""
    start = time.time() // 600 * 600 - 1800
    runs = [
        world.run(start + 60 * n, start + 60 * n + 10, experiment=21, attempt=attempt, position=position)
        for n, (attempt, position) in enumerate(((1, 1), (2, 1), (3, 1)) if by == "row" else ((1, 1), (1, 2), (1, 3)))
    ]
    for run, loss in zip(runs, (0.1, math.nan, 0.2), strict=True):
        metrics = [SoftwareMetric("loss", 1, start + 1, 0.5), SoftwareMetric("loss", 2, start + 2, loss)]
        store_software_metrics(world.connection, run, metrics)
    store_software_metrics(world.connection, runs[0], [SoftwareMetric("accuracy", 1, start + 1, 0.9)])
    found = compare(world.connection, ["21"], by=by)
    [entry] = found.entries
    assert (entry.software, "loss" in entry.spread, "loss" in entry.deviations) == ({"loss": None}, False, False)
    second = "21/1/1@2" if by == "row" else "21/1/2"
    third = "21/1/1@3" if by == "row" else "21/1/3"
    assert [(one.metric, one.run, one.reason.code) for one in entry.missing if one.metric == "loss"] == [
        ("loss", second, "value_not_finite")
    ]
    assert [one.run for one in entry.missing if one.metric == "accuracy"] == [second, third]
    assert "NaN" in shown(found)
    named = [one for one in trust(world.connection, found).notices if one.code == "missing_metrics"]
    assert any(
        one.runs == [second] and one.text.endswith("no loss: its last value was NaN or infinite.") for one in named
    )


@pytest.mark.usefixtures("rows")
def test_a_run_that_has_not_finished_has_no_change_of_its_duration(world: World) -> None:
    start = time.time() // 600 * 600 - 1800
    whole = world.run(start, start + 100, experiment=21)
    crashed = world.run(start, start + 49, experiment=21, position=2)
    world.end(crashed, start, start + 49, status="failed")
    for run in (whole, crashed):
        store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, start + 1, -2.0)])
        times = [start + n for n in range(1, 49)]
        world.write(world.gauge("bench_process_threads", times, [4.0] * 48, {"run_id": run}))
    further = [ChosenQuantities(["threads"])]
    for baseline in ("21/1/1", "21/1/2"):
        found = compare(world.connection, ["21"], baseline=baseline, further=further)
        assert [dict(entry.changes) for entry in found.entries] == [{}, {"threads": 0}]
    aligned = compare(world.connection, ["21"], baseline="21/1/1", align="time", further=further)
    assert aligned.entries[1].changes["duration_seconds"] == 0, "the part that both have"
    by_workload = compare(world.connection, ["20", "21"], by="workload", baseline="20")
    assert "duration_seconds" not in by_workload.entries[1].changes


def test_a_change_is_relative_to_the_size_of_its_baseline(world: World) -> None:
    start = time.time() // 600 * 600 - 1800
    for n, loss in enumerate((-2.0, -3.0, -1.0, 1.0), 1):
        run = world.run(start, start + 10, position=n)
        store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, start + 1, loss)])
    found = compare(world.connection, ["20"], baseline="20/1/1")
    assert [entry.changes.get("loss") for entry in found.entries] == [None, -0.5, 0.5, 1.5]


def test_a_change_against_other_work_is_marked(world: World) -> None:
    """The whole experiment tells the work of a run, whichever of its runs are chosen."""
    start = time.time() // 600 * 600 - 1800
    for workload, names in enumerate((["narrow"], ["wide"], ["narrow", "wide"]), 1):
        for position, name in enumerate(names, 1):
            world.run(start, start + 10 + position, workload=workload, position=position, name=name)
    found = compare(world.connection, ["20/3"], baseline="20/3/1")
    assert [entry.of_other_work for entry in found.entries] == [frozenset(), {"duration_seconds"}]
    assert found.as_dict()["runs"][1]["changes_of_other_work"] == ["duration_seconds"]
    assert "(≠ +9%)" in shown(found)
    same = compare(world.connection, ["20/3/1"], baseline="20/1/1")
    assert same.entries[1].of_other_work == frozenset()
    assert "≠" not in shown(same)


@pytest.mark.usefixtures("rows")
def test_where_no_attempt_finished_those_there_are_count(world: World) -> None:
    [row] = compare(world.connection, ["20/1/1@4"], by="row").entries
    assert (row.values["duration_seconds"], row.counted) == (1, (4,))


@pytest.mark.usefixtures("rows")
def test_a_workload_is_that_of_the_latest_attempts(world: World) -> None:
    [workload] = compare(world.connection, ["20"], by="workload", every_attempt=True).entries
    assert [run.attempt for run in workload.runs] == [4, 1]


@pytest.mark.usefixtures("rows")
def test_runs_are_selected_with_every_attempt(world: World) -> None:
    def attempts(*selectors: str) -> list[tuple[int, int]]:
        found = select_runs(world.connection, selectors, every_attempt=True)
        return [(run.position, run.attempt) for run in found]

    assert attempts("20") == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]
    assert attempts("20/1/1@2", "20/1/2") == [(1, 2), (2, 1)]
