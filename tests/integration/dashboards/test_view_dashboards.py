"""Saved views as dashboards, and the answers to their queries."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from hypergauge.cli import app
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.dashboards.grafana.validity import faults
from hypergauge.dashboards.grafana.views import from_view
from hypergauge.insight.charts.view import View, ViewChart
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.support.fakes.grafana_api import TOKEN, GrafanaServer, serving
from tests.support.world import World

START = time.time() // 60 * 60 - 7200


@pytest.fixture
def runs(world: World) -> list[str]:
    """Two runs of one workload, measured, with a loss; and one without any values."""
    made = [world.run(START, START + 100, position=n, name="it's") for n in (1, 2)]
    times = [START + 1 + n for n in range(99)]
    for run in made:
        world.write(world.gauge("bench_process_threads", times, [4.0] * 99, {"run_id": run}))
        store_software_metrics(
            world.connection, run, [SoftwareMetric("val/loss", n, START + n, 1 / (n + 1)) for n in range(50)]
        )
    world.connection.execute("select summarise(run_id) from runs")
    return made


def answers(world: World, panel: dict[str, Any]) -> list[int]:
    """Return how many rows each query of a panel answers with, over the range that the dashboard opens with."""
    found = []
    for target in panel["targets"]:
        statement = target["rawSql"].replace("$__timeFrom()", "'1970-01-01T00:00:00Z'")
        statement = statement.replace("$__timeTo()", "'1970-01-01T00:02:00Z'").replace("$__interval_ms", "1000")
        assert "$" not in statement
        with (
            world.database.session() as connection,
            connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor,
        ):
            found.append(len(cursor.execute(statement.encode()).fetchall()))
    return found


def test_a_panel_for_each_chart(world: World, runs: list[str]) -> None:
    ids = tuple(runs)
    view = View(
        (
            ViewChart(ids, ("threads",)),
            ViewChart(ids, ("threads", "val/loss")),
            ViewChart(ids, ("threads",), by="workload", scopes=("process",)),
            ViewChart(ids[:1], ("val/loss",)),
            ViewChart(ids, ("threads", "val/loss"), align="step"),
        )
    )
    made = from_view(world.connection, view.find(world.connection), "mine")
    assert list(faults(made)) == []
    assert made["title"] == "mine"
    assert re.fullmatch("bench-view-[0-9a-f]{16}", made["uid"])
    assert made["time"] == {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-01T00:01:40.000Z"}
    charts = [panel for panel in made["panels"] if panel["type"] in ("timeseries", "trend")]
    assert [panel["title"] for panel in charts] == [
        "1: threads of 20/1/1, 20/1/2", "2: threads, val/loss of 20/1/1, 20/1/2", "3: threads of 20/1", "4: val/loss of 20/1/1", "5: threads, val/loss of 20/1/1, 20/1/2",
    ]  # fmt: skip
    assert [answers(world, panel) for panel in charts] == [[198, 1], [198, 1, 100], [99, 1], [50], [196]]
    [notices, table] = [panel for panel in made["panels"] if panel["type"] == "table"]
    assert answers(world, table) == [2]
    assert answers(world, notices) == [
        2
    ]  # that they were beside each other; on the chart of one, that this one was not alone


def test_epochs_of_software_metrics_are_refused(world: World, runs: list[str]) -> None:
    found = View((ViewChart(tuple(runs), ("val/loss",), align="epoch"),)).find(world.connection)
    with pytest.raises(BadRequest, match="val/loss"):
        from_view(world.connection, found, "mine")


def test_the_same_view_is_the_same_dashboard(world: World, runs: list[str]) -> None:
    def uid(*charts: ViewChart) -> str:
        return str(from_view(world.connection, View(charts).find(world.connection), "any")["uid"])

    whole, short = ViewChart(tuple(runs), ("threads",)), ViewChart(tuple(run[:12] for run in runs), ("threads",))
    assert uid(whole) == uid(short) != uid(ViewChart(tuple(runs), ("threads",), by="workload"))


def test_a_metric_that_the_runs_do_not_have_is_refused_with_the_nearest(world: World, runs: list[str]) -> None:
    found = View((ViewChart(tuple(runs), ("thread",)),)).find(world.connection)
    with pytest.raises(BadRequest, match=r"\(did you mean 'threads'\?\)"):
        from_view(world.connection, found, "mine")


def test_a_view_is_pushed(world: World, runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "threads.json"
    View((ViewChart((runs[0][:12], "0" * 12), ("threads",)),)).write(file)
    with serving(GrafanaServer()) as grafana:
        grafana.add_source()
        monkeypatch.setenv("BENCH_DSN", world.database.dsn)
        monkeypatch.setenv("BENCH_GRAFANA_TOKEN", TOKEN)
        arguments = ["dashboards", "push", str(file), "--url", grafana.url]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        [(uid, dashboard)] = grafana.dashboards.items()
        assert f"threads created: {grafana.url}/d/{uid}" in done.stdout
        assert "000000000000" in dashboard["description"]
        world.connection.execute("delete from runs")
        assert isinstance(CliRunner().invoke(app, arguments).exception, NoData)
        file.write_text("{}")
        assert isinstance(CliRunner().invoke(app, arguments).exception, BadRequest)
