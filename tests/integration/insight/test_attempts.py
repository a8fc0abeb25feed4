"""Attempts of a row: each alone, and their mean."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.runs.selection import select_runs
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
