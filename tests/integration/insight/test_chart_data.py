"""Data of plots: the curves of runs, with their notices."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.charts.bars import bars
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.charts.scatter import scatter
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.comparison.trust import trust
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World

pytestmark = pytest.mark.flavours

SECONDS = 100


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def coded(found: Chart) -> list[tuple[str, list[str], dict[str, Any]]]:
    return [(one.code, one.runs, one.values) for one in found.notices]


def drawn(world: World, *metrics: str, selectors: tuple[str, ...] = ("20",), **options: object) -> Chart:
    return chart(world.connection, select_runs(world.connection, selectors), metrics, **options)  # type: ignore[arg-type]


def cpu(world: World, run_id: str, start: float, cores: float, *, every: int = 1, seconds: int = SECONDS) -> None:
    times = [start + every * (at + 1) for at in range(seconds // every)]
    values = [cores + at % 2 for at in range(len(times))]
    world.write(
        world.gauge("bench_process_cpu_seconds_total", times, values, {"run_id": run_id}, "process", dt=every),
    )


def losses(world: World, run_id: str, start: float, *values: float) -> None:
    logged = [SoftwareMetric("loss", step, start + 10.0 * step, value) for step, value in enumerate(values)]
    store_software_metrics(world.connection, run_id, logged)


def test_runs_share_the_time_since_their_start(world: World, start: float) -> None:
    for position, begin in ((1, start), (2, start + 1000)):
        run_id = world.run(begin, begin + SECONDS, position=position, name=f"net{position}")
        cpu(world, run_id, begin, position)
    found = drawn(world, "cpu_usage", points=10)
    assert [(one.label, one.metric, one.unit, one.scope) for one in found.series] == [
        ("20/1/1 net1", "cpu_usage", "cores", "process"),
        ("20/1/2 net2", "cpu_usage", "cores", "process"),
    ]
    first, second = found.series
    assert first.x.tolist() == second.x.tolist() == [10.0 * at for at in range(10)]
    np.testing.assert_allclose(first.value[1:-1], 1.5)
    np.testing.assert_allclose([second.low[1:-1], second.high[1:-1]], [[2] * 8, [3] * 8])
    assert (found.notices, found.left_out) == ((), ())


def test_a_workload_is_the_mean_of_its_runs(world: World, start: float) -> None:
    for workload in (1, 2):
        for position in (1, 2):
            run_id = world.run(start, start + SECONDS, workload=workload, position=position, name=f"net{position}")
            cpu(world, run_id, start, 10.0 * workload + position)
    found = drawn(world, "cpu_usage", selectors=("20/2/1", "20/1"), by="workload", points=10)
    assert [one.label for one in found.series] == ["20/2 net1, net2", "20/1 net1, net2"]
    assert [len(one.runs) for one in found.series] == [2, 2]
    np.testing.assert_allclose(found.series[1].value[1:-1], 12)
    np.testing.assert_allclose([found.series[1].low[1:-1], found.series[1].high[1:-1]], [[11] * 8, [13] * 8])


def test_software_metrics_are_as_they_were_logged(world: World, start: float) -> None:
    for position in (1, 2):
        run_id = world.run(start, start + SECONDS, position=position)
        cpu(world, run_id, start, position)
        losses(world, run_id, start, 4 * position, 2 * position, position)
    by_time = drawn(world, "cpu_usage", "loss")
    assert [(one.metric, one.label) for one in by_time.series] == [
        ("cpu_usage", "20/1/1 train"), ("cpu_usage", "20/1/2 train"), ("loss", "20/1/1 train"), ("loss", "20/1/2 train"),
    ]  # fmt: skip
    assert by_time.series[2].x.tolist() == [0, 10, 20]
    assert by_time.series[2].value.tolist() == [4, 2, 1]
    [mean] = drawn(world, "loss", by="workload", align="step").series
    assert mean.label == "20/1 train"
    assert [mean.x.tolist(), mean.value.tolist()] == [[1, 2, 3], [6, 3, 1.5]]
    assert [mean.low.tolist(), mean.high.tolist()] == [[4, 2, 1], [8, 4, 2]]


def tracked(world: World, run_id: str, start: float, step_seconds: float, steps: int = 50) -> None:
    """Ten seconds of loading, then training in steps of the same length, in two epochs."""
    begin, seconds = start + 10, steps * step_seconds
    spans = [
        SpanRecord("load", None, "load", "phase", None, start, begin, 1, "main"),
        SpanRecord("train", None, "train", "phase", None, begin, begin + seconds, 1, "main"),
        *(
            SpanRecord(
                f"e{at}",
                "train",
                "epoch",
                "epoch",
                at,
                begin + at * seconds / 2,
                begin + (at + 1) * seconds / 2,
                1,
                "main",
            )
            for at in (0, 1)
        ),
        *(
            SpanRecord(
                f"s{at}",
                "train",
                "step",
                "step",
                at,
                begin + at * step_seconds,
                begin + (at + 1) * step_seconds,
                1,
                "main",
            )
            for at in range(steps)
        ),
    ]
    store_spans(world.connection, run_id, spans)


@pytest.mark.parametrize(
    ("align", "span", "logged"),
    [
        ("step", (0, 50), [10, 20]),
        ("epoch", (0, 2), [0.4, 0.8]),
        ("phase", (0, 75), [10, 20]),
        ("phase:load", (0, 10), [10]),
    ],
)
def test_runs_share_other_axes(
    world: World, start: float, align: str, span: tuple[float, float], logged: list[float]
) -> None:
    for position, step_seconds in ((1, 1.0), (2, 1.5)):
        run_id = world.run(start, start + 2 * SECONDS, position=position)
        cpu(world, run_id, start, 1.0, seconds=2 * SECONDS)
        tracked(world, run_id, start, step_seconds)
        losses(world, run_id, start + 10 + 10 * (step_seconds - 1), *([1.0] * 3))
    world.run(start, start + SECONDS, position=3)
    found = drawn(world, "cpu_usage", "loss", align=align)
    measured = [one for one in found.series if one.metric == "cpu_usage"]
    assert len(measured) == 2
    for one in measured:
        assert one.x[0] >= span[0]
        assert one.x[-1] <= span[1]
        assert 1 <= one.value.mean() <= 2
    first = [one for one in found.series if one.metric == "loss"]
    assert [round(x, 6) for one in first[:1] for x in one.x if x > 0] == logged
    assert coded(found)[0] == ("no_axis", ["20/1/3"], {"align": align})


def test_many_software_metrics_become_few_points_with_their_range(world: World, start: float) -> None:
    run_id = world.run(start, start + SECONDS)
    logged = [SoftwareMetric("loss", step, start + step / 100, 1e6 if step == 777 else 1.0) for step in range(5000)]
    store_software_metrics(world.connection, run_id, logged)
    [loss] = drawn(world, "loss", points=50).series
    assert 45 <= len(loss.x) <= 55
    assert loss.high.max() == 1e6


def test_differences_between_runs_are_noted(world: World, start: float) -> None:
    alone = world.run(start, start + SECONDS, position=1, gpu="GPU-1")
    shared = [world.run(start, start + SECONDS, position=at, gpu="GPU-2", simulated=at == 3) for at in (2, 3)]
    cpu(world, alone, start, 1.0)
    cpu(world, shared[0], start, 1.0, every=5)
    cpu(world, shared[1], start, 1.0, seconds=50)
    times = [start + at + 1 for at in range(SECONDS)]
    world.write(
        world.gauge("DCGM_FI_PROF_SM_ACTIVE", times, [0.5] * SECONDS, {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("bench_gpu_sm_active_ratio", times, [0.5] * SECONDS, {"UUID": "GPU-2"}, "nvml"),
    )
    losses(world, alone, start, 1.0)
    found = drawn(world, "gpu_sm_active", "cpu_usage", "loss")
    sm_active, cpu_usage = {"metrics": ["gpu_sm_active"]}, {"metrics": ["cpu_usage"]}
    assert coded(found) == [
        ("not_logged", ["20/1/2", "20/1/3"], {"metrics": ["loss"]}),
        ("scopes_differ", ["20/1/1"], {**sm_active, "scope": "instance"}),
        ("scopes_differ", ["20/1/2", "20/1/3"], {**sm_active, "scope": "device"}),
        ("sources_differ", ["20/1/1"], {**sm_active, "sources": ["DCGM_FI_PROF_SM_ACTIVE"]}),
        ("sources_differ", ["20/1/2", "20/1/3"], {**sm_active, "sources": ["bench_gpu_sm_active_ratio"]}),
        ("intervals_differ", ["20/1/1", "20/1/2", "20/1/3"], {**cpu_usage, "interval_seconds": [1, 5, 1]}),
        ("partial_coverage", ["20/1/3"], {**cpu_usage, "shares": [pytest.approx(0.5, abs=0.01)]}),
        ("shared_resource", ["20/1/2", "20/1/3"], {}),
        ("simulated_gpu", ["20/1/3"], {}),
    ]
    assert [(one.metric, one.label) for one in found.series if one.simulated] == [("gpu_sm_active", "20/1/3 train")]
    assert "simulated_gpu" not in [code for code, *_ in coded(drawn(world, "cpu_usage", "loss"))], (
        "no GPU's metric is charted"
    )


def test_more_runs_than_can_be_distinguished_are_named(world: World, start: float) -> None:
    for position in (1, 2, 3, 4):
        losses(world, world.run(start, start + SECONDS, position=position), start, 1.0)
    found = drawn(world, "loss", max_series=2)
    assert [one.label for one in found.series] == ["20/1/1 train", "20/1/2 train"]
    assert found.left_out == ("20/1/3", "20/1/4")
    assert coded(found) == [
        ("runs_left_out", ["20/1/3", "20/1/4"], {"total": 4, "drawn": 2}),
        ("shared_resource", ["20/1/1", "20/1/2"], {}),
    ]


def test_runs_with_none_of_the_metrics_are_named(world: World, start: float) -> None:
    logging, measured, beyond = (world.run(start, start + SECONDS, position=at) for at in (1, 2, 3))
    cpu(world, measured, start, 1.0)
    for run_id in (logging, beyond):
        losses(world, run_id, start, 1.0)
    not_logged = ("not_logged", ["20/1/2"], {"metrics": ["loss"]})
    assert coded(drawn(world, "loss"))[0] == not_logged
    assert not_logged in coded(drawn(world, "loss", max_series=1)), "a run that is left out has a notice of its own"
    not_measured = ("not_measured", ["20/1/1", "20/1/3"], {"metrics": ["cpu_usage"]})
    assert coded(drawn(world, "cpu_usage"))[0] == not_measured
    runs = select_runs(world.connection, ["20"])
    for metric, expected in (("loss", not_logged), ("cpu_usage", not_measured)):
        assert expected in [(one.code, one.runs, one.values) for one in bars(world.connection, runs, [metric]).notices]
        chosen = trust(world.connection, compare(world.connection, ["20"]), metrics=[metric])
        assert expected in [(one.code, one.runs, one.values) for one in chosen.notices]


def test_what_is_not_there_is_refused_with_what_is(world: World, start: float) -> None:
    run_id = world.run(start, start + SECONDS)
    cpu(world, run_id, start, 1.0)
    losses(world, run_id, start, 1.0)
    with pytest.raises(BadRequest, match=r"\(did you mean 'loss'\?\)"):
        drawn(world, "los")
    with pytest.raises(BadRequest, match=r"'cpu_usge' \(did you mean 'cpu_usage'\?\)"):
        drawn(world, "cpu_usge")
    with pytest.raises(BadRequest, match=r"aligned by 'steps' \(did you mean 'step'\?\)"):
        drawn(world, "loss", align="steps")
    with pytest.raises(BadRequest, match=r"\(did you mean 'host'\?\)"):
        drawn(world, "cpu_usage", scopes=["hots"])
    with pytest.raises(NoData, match="have no epochs"):
        drawn(world, "cpu_usage", align="epoch")
    tracked(world, run_id, start, 1.0)
    with pytest.raises(BadRequest, match=r"\(did you mean 'train'\?\)"):
        drawn(world, "loss", align="phase:trian")
    with pytest.raises(NoData, match="no samples of cpu_usage"):
        drawn(world, "cpu_usage", scopes=["device"])


def test_bars_are_means_with_their_spread(world: World, start: float) -> None:
    for position in (1, 2):
        run_id = world.run(start, start + SECONDS, position=position, name=f"net{position}")
        cpu(world, run_id, start, 10.0 * position)
        losses(world, run_id, start, 4 * position, position)
    runs = select_runs(world.connection, ["20"])
    each = bars(world.connection, runs, ["cpu_usage", "loss"]).bars
    assert [(one.metric, one.label, round(one.value, 1), one.low, one.high, one.p95) for one in each] == [
        ("cpu_usage", "20/1/1 net1", 10.5, 10, 11, 11), ("cpu_usage", "20/1/2 net2", 20.5, 20, 21, 21),
        ("loss", "20/1/1 net1", 1, 1, 1, None), ("loss", "20/1/2 net2", 2, 2, 2, None),
    ]  # fmt: skip
    together = bars(world.connection, runs, ["cpu_usage", "loss"], by="workload").bars
    assert [(one.metric, one.label, round(one.value, 1), round(one.low, 1), round(one.high, 1), one.p95) for one in together] == [
        ("cpu_usage", "20/1 net1, net2", 15.5, 10.5, 20.5, None), ("loss", "20/1 net1, net2", 1.5, 1, 2, None),
    ]  # fmt: skip


def test_a_value_that_one_run_lacks_is_not_that_of_the_others(world: World, start: float) -> None:
    """The means of a workload and of a row's attempts need a value of each, and the legend has the last value of a run."""
    for position, attempt in ((1, 1), (2, 1), (2, 2)):
        run_id = world.run(start, start + SECONDS, position=position, attempt=attempt, name=f"net{position}")
        losses(world, run_id, start, 4, 1.0)
        if attempt == 2:
            last = SoftwareMetric("loss", 9, start + 9, math.nan)
            store_software_metrics(world.connection, run_id, [last])
        if position == 1:
            cpu(world, run_id, start, 10.0)
    runs = select_runs(world.connection, ["20"])
    assert [(one.metric, one.label) for one in bars(world.connection, runs, ["cpu_usage", "loss"]).bars] == [
        ("cpu_usage", "20/1/1 net1"),
        ("loss", "20/1/1 net1"),
    ]
    assert bars(world.connection, runs, ["cpu_usage", "loss"], by="workload").bars == ()
    every = select_runs(world.connection, ["20"], every_attempt=True)
    points = scatter(world.connection, every, ["loss"], "lr")
    assert [(one.bar.label, one.attempts) for one in points.points] == [("20/1/1 net1", 1)]
    assert points.left_out == ("20/1/2",)
    lasts = {one.label: one.last for one in chart(world.connection, runs, ["loss"]).series}
    assert lasts == {"20/1/1 net1": 1.0, "20/1/2 net2": pytest.approx(math.nan, nan_ok=True)}
