"""Metrics of tensors in charts: beside quantities, over time and steps, by workload, in a part, and in shared views."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.grafana.views import from_view
from hypergauge.dashboards.plots.panels import lay_out
from hypergauge.dashboards.report.training import reading
from hypergauge.insight.charts.bars import bars
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.charts.view import View, ViewChart
from hypergauge.insight.part import Part
from hypergauge.insight.training import trainings
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import select_runs
from tests.conftest import Command
from tests.support.data.trainings import tensor_set, tensor_step
from tests.support.world import World

pytestmark = pytest.mark.flavours

SECONDS = 100


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def training(world: World, start: float, position: int, norm: float = 1.0) -> str:
    """Store a run with steps of two seconds, every tenth of which is watched."""
    run_id = world.run(start, start + SECONDS, position=position, name=f"net{position}")
    times = [start + at + 1 for at in range(SECONDS)]
    world.write(world.gauge("bench_process_cpu_seconds_total", times, [2.0] * SECONDS, {"run_id": run_id}, "process"))
    spans = [
        SpanRecord("train", None, "train", "phase", None, start, start + SECONDS / 2, 1, "main"),
        *(
            SpanRecord(f"s{at}", "train", "step", "step", at, start + 2 * at, start + 2 * at + 2, 1, "main")
            for at in range(50)
        ),
    ]
    store_spans(world.connection, run_id, spans)
    gradients = tensor_set(world.connection, run_id, "gradients", ["layer.10", "layer.2"])
    losses = tensor_set(world.connection, run_id, "losses", ["loss"])
    for at in range(0, 50, 10):
        ended = start + 2 * at + 2
        tensor_step(
            world.connection,
            run_id,
            gradients,
            at,
            ended,
            norm=norm + at,
            l2=[norm * at, norm * at + 1],
            zeros=[0.25, 0.5],
        )
        tensor_step(
            world.connection, run_id, losses, at, ended, mean=[None if at == 20 else 50.0 - at], nonfinite=[at == 20]
        )
    return run_id


def drawn(world: World, *metrics: str, selectors: tuple[str, ...] = ("20",), **options: object) -> Chart:
    return chart(world.connection, select_runs(world.connection, selectors), metrics, **options)  # type: ignore[arg-type]


def test_tensors_share_the_axis_of_time_with_the_hardware(world: World, start: float) -> None:
    training(world, start, 1)
    found = drawn(world, "cpu_usage", "gradient_norm", "gradients/*/l2", points=20)
    assert [(one.metric, one.scope, one.unit, one.logged) for one in found.series] == [
        ("cpu_usage", "process", "cores", False), ("gradient_norm", "", "", True), ("gradients/*/l2", "layer.10", "", True),
        ("gradients/*/l2", "layer.2", "", True),
    ]  # fmt: skip
    assert found.series[1].x.tolist() == [2, 22, 42, 62, 82]
    assert found.series[1].value.tolist() == [1, 11, 21, 31, 41]
    assert found.series[3].value.tolist() == [1, 11, 21, 31, 41]
    legend = [one.name for one in lay_out(found).legend]
    assert legend[-2:] == ["20/1/1 net1 (layer.10)", "20/1/1 net1 (layer.2)"]
    assert found.series[2].style != found.series[3].style, "tensors of one run have their own colors"


def test_over_steps(world: World, start: float) -> None:
    training(world, start, 1)
    [series] = drawn(world, "gradient_norm", align="step").series
    assert series.x.tolist() == [1, 11, 21, 31, 41], "a watched step has ended"


def test_by_workload(world: World, start: float) -> None:
    for position, norm in ((1, 1.0), (2, 3.0)):
        training(world, start, position, norm)
    found = drawn(world, "gradients/*/l2", by="workload")
    assert [(one.label, one.scope) for one in found.series] == [
        ("20/1 net1, net2", "layer.10"), ("20/1 net1, net2", "layer.2"),
    ]  # fmt: skip
    np.testing.assert_allclose(found.series[0].value, [0, 20, 40, 60, 80])
    np.testing.assert_allclose(found.series[0].high, [0, 30, 60, 90, 120])


def test_several_runs_keep_their_colors(world: World, start: float) -> None:
    for position in (1, 2):
        training(world, start, position)
    series = drawn(world, "gradients/*/l2").series
    assert series[0].style == series[1].style != series[2].style == series[3].style


def test_a_part_of_a_run(world: World, start: float) -> None:
    training(world, start, 1)
    [series] = drawn(world, "gradient_norm", part=Part.of(None, None, "train")).series
    assert series.x.tolist() == [2, 22, 42]
    assert [
        one.value for one in bars(world.connection, select_runs(world.connection, ["20"]), ["gradient_norm"]).bars
    ] == [41]


def test_the_loss_is_the_logged_one_where_there_is_one(world: World, start: float) -> None:
    run_id = training(world, start, 1)
    [recorded] = drawn(world, "loss").series
    assert recorded.value.tolist() == [50, 40, 20, 10], "a loss that is no number is left out"
    assert drawn(world, "nonfinite").series[0].value.tolist() == [0, 0, 1, 0, 0]
    store_software_metrics(world.connection, run_id, [SoftwareMetric("loss", 1, start + 5, 7.0)])
    assert drawn(world, "loss").series[0].value.tolist() == [7]


def test_each_run_has_its_logged_loss_or_the_watched_one(world: World, start: float) -> None:
    training(world, start, 1)
    logging = world.run(start, start + SECONDS, position=2, name="logging")
    store_software_metrics(world.connection, logging, [SoftwareMetric("loss", 1, start + 5, 7.0)])
    found = drawn(world, "loss")
    assert [(one.label, one.value.tolist()) for one in found.series] == [
        ("20/1/1 net1", [50, 40, 20, 10]), ("20/1/2 logging", [7]),
    ]  # fmt: skip
    assert not [one for one in found.notices if one.code == "not_logged"]
    last = bars(world.connection, select_runs(world.connection, ["20"]), ["loss"])
    assert [(one.label, one.value) for one in last.bars] == [("20/1/1 net1", 10), ("20/1/2 logging", 7)]
    assert [(one.label, one.value.tolist()) for one in drawn(world, "loss", by="workload").series] == [
        ("20/1 net1, logging", [50, 27.75, 40, 20, 10])
    ]
    [mean] = bars(world.connection, select_runs(world.connection, ["20"]), ["loss"], by="workload").bars
    assert (mean.value, mean.low, mean.high) == (8.5, 7, 10)


def test_a_watched_loss_that_was_not_finite_is_named(world: World, start: float) -> None:
    run_id = training(world, start, 1)
    named = ("not_finite", ["20/1/1"], {"metrics": ["loss"], "steps": [20]})
    runs = select_runs(world.connection, ["20"])
    assert named in [(one.code, one.runs, one.values) for one in drawn(world, "loss").notices]
    assert [one.last for one in trainings(world.connection, runs, None)[run_id] if one.what == "loss"] == [10]
    for step in (50, 60):
        tensor_step(world.connection, run_id, "losses-1", step, start + step + 41, mean=[None], nonfinite=[1])
    [line] = [one for one in trainings(world.connection, runs, None)[run_id] if one.what == "loss"]
    assert (reading(line.last, line.unit), line.first) == ("NaN", 50)
    part = Part(None, 80).find(world.connection, runs)
    assert [one.last for one in trainings(world.connection, runs, part)[run_id] if one.what == "loss"] == [20]
    found = bars(world.connection, runs, ["loss", "gradient_norm"])
    assert [one.metric for one in found.bars] == ["gradient_norm"], "the last finite loss is not the last one"
    assert named in [(one.code, one.runs, one.values) for one in found.notices]
    store_software_metrics(world.connection, run_id, [SoftwareMetric("loss", 1, start + 5, 7.0)])
    assert not [one for one in drawn(world, "loss").notices if one.code == "not_finite"], "the logged loss is drawn"


def test_runs_without_the_metric_are_named(world: World, start: float) -> None:
    training(world, start, 1)
    other = world.run(start, start + SECONDS, position=2)
    times = [start + at + 1 for at in range(SECONDS)]
    world.write(world.gauge("bench_process_cpu_seconds_total", times, [2.0] * SECONDS, {"run_id": other}, "process"))
    found = drawn(world, "cpu_usage", "gradient_norm")
    assert [(one.code, one.runs) for one in found.notices if one.code == "not_logged"] == [("not_logged", ["20/1/2"])]


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("gradient/*/l2", r"these runs have no metric 'gradient/\*/l2' \(did you mean 'gradients/\*/l2'\?\)"),
        ("gradien_norm", r"did you mean 'gradient_norm'"),
        ("gradients/layer.3/l2", r"no tensor of gradients is named 'layer.3' \(did you mean 'layer.2'\?\)"),
        ("weight_norm", r"these runs have no metric 'weight_norm'"),
    ],
)
def test_an_unknown_metric_has_the_nearest(world: World, start: float, metric: str, message: str) -> None:
    training(world, start, 1)
    with pytest.raises(BadRequest, match=message):
        drawn(world, metric)


def test_bars_have_one_tensor(world: World, start: float) -> None:
    training(world, start, 1)
    runs = select_runs(world.connection, ["20"])
    assert [one.value for one in bars(world.connection, runs, ["gradients/layer.2/l2"]).bars] == [41]
    with pytest.raises(BadRequest, match="is 2 tensors: name one of them, or draw lines"):
        bars(world.connection, runs, ["gradients/*/l2"])


@pytest.fixture
def bench(command: Command, world: World, start: float, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command over a database with a watched training."""
    training(world, start, 1)
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return command


def test_plots_pages_and_lists(bench: Command, tmp_path: Path) -> None:
    for suffix in ("svg", "pdf", "png", "html"):
        status, _, error = bench(
            "plot", "20", "-m", "gradients/*/l2", "-m", "cpu_usage", "-m", "loss", "-o", f"a.{suffix}"
        )
        assert (status, error) == (0, "")
        assert (tmp_path / f"a.{suffix}").stat().st_size > 1000
    status, output, _ = bench("plot", "20", "-m", "gradients/*/zeros", "-o", "a.svg", "--json")
    series = json.loads(output)["series"]
    assert [(one["metric"], one["scope"], one["unit"], one["points"]) for one in series] == [
        ("gradients/*/zeros", "layer.10", "ratio", 5), ("gradients/*/zeros", "layer.2", "ratio", 5),
    ]  # fmt: skip
    status, output, _ = bench("metrics", "20", "--json")
    listed = {one["quantity"]: one for one in json.loads(output)}
    assert {"cpu_usage", "gradient_norm", "loss", "nonfinite", "gradients/*/l2", "losses/*/mean"} <= set(listed)
    assert (listed["gradients/*/l2"]["series"], listed["nonfinite"]["unit"]) == (2, "ratio")


def test_a_shared_view_comes_back(bench: Command, world: World, tmp_path: Path) -> None:
    assert bench("share", "20", "-m", "gradients/*/l2", "-m", "update", "-o", "v.json")[0] == 2
    assert bench("share", "20", "-m", "gradients/*/l2", "-m", "cpu_usage", "--align", "step", "-o", "v.json")[0] == 0
    status, output, _ = bench("open", "v.json", "--json")
    [drawn] = json.loads(output)["charts"]
    assert status == 0
    assert drawn["metrics"] == ["gradients/*/l2", "cpu_usage"]
    assert [one["scope"] for one in drawn["series"]] == ["layer.10", "layer.2", "process"]
    assert bench("open", "v.json", "-o", "v.html")[0] == 0
    assert "layer.10" in (tmp_path / "v.html").read_text()
    view = View((ViewChart(tuple(run.run_id for run in select_runs(world.connection, ["20"])), ("gradient_norm",)),))
    with pytest.raises(BadRequest, match="no curves of tensors, such as gradient_norm: `bench open` shows them"):
        from_view(world.connection, view.find(world.connection), "health")
