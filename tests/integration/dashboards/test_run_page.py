"""The page of one run, beside its curves."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.data.trainings import health
from tests.support.world import World


@pytest.fixture
def start() -> float:
    """The start of the run."""
    return float(time.time() // 1 - 600)


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def query(world: World, statement: str, *parameters: object) -> list[Any]:
    """Query with the rights of dashboards."""
    with world.connection.transaction():
        world.connection.execute("set local role bench_reader")
        return world.connection.execute(statement.encode(), parameters).fetchall()


def span(
    world: World,
    run: str,
    number: str,
    kind: str,
    start: float,
    end: float | None,
    *,
    parent: str | None = None,
    pid: int = 1,
) -> None:
    world.connection.execute(
        "insert into spans (run_id, span_id, parent_id, name, kind, step, started_at, ended_at, pid)"
        " values (%s, %s, %s, %s, %s, 0, to_timestamp(%s), to_timestamp(%s), %s)",
        (run, number, parent, f"{kind} {number}", kind, start, end, pid),
    )


def test_the_card_of_a_run_names_what_measured_it(world: World, start: float) -> None:
    host, none = (
        world.run(start, start + 60, position=n, exporters=choice) for n, choice in ((1, {"host": 2.0}), (2, {}))
    )
    times = [start + at for at in range(2, 60, 2)]
    world.write(world.gauge("node_load1", times, [1.0] * len(times), dt=2.0))
    world.connection.execute("select summarise(run_id) from runs")
    found = [dict(query(world, "select what, value from run_card(%s)", run))["measured"] for run in (host, none)]
    assert found == ["every 2.0 s", "by no exporter, as its row says"]


def test_the_card_of_a_run_shows_what_it_has(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=uuid(0), name="resnet", simulated=True)
    world.run(start, start + 60, position=2, gpu=uuid(0))
    world.write(world.gauge("bench_gpu_power_watts", [start + 1], [70.0], {"UUID": uuid(0), "gpu": "0"}, "nvml"))
    card = dict(query(world, "select what, value from run_card(%s)", run))
    assert card == {
        "run": "20/1/1 resnet",
        "experiment": "20 test",
        "owner": "me",
        "end": "finished, exit status 0",
        "command": "train.py",
        "parameters": "lr=0.1",
        "host": "node1",
        "devices": "GPU 0",
        "id": run,
        "MLflow's id": card["MLflow's id"],
    }
    assert query(world, "select * from run_card('missing')") == []
    assert query(world, "select * from run_card('')") == []


def test_what_measuring_a_run_cost_and_what_held_it_back_stand_on_its_card(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=uuid(0))
    times = [start + 1 + at for at in range(59)]
    for mode, cores in (("user", 1.0), ("idle", 3.0)):
        world.write(world.gauge("node_cpu_seconds_total", times, [cores] * 59, {"cpu": "0", "mode": mode}))
    world.write(
        world.gauge("bench_exporter_cpu_seconds_total", times, [0.02] * 59, {"exporter": "nvml"}, "nvml"),
        world.gauge(
            "bench_gpu_throttled", times, [0.0] * 58 + [1.0], {"UUID": uuid(0), "reason": "sw_power_cap"}, "nvml"
        ),
    )
    card = dict(query(world, "select what, value from run_card(%s)", run))
    assert card["overhead"] == "0.5 % of the host's cores, for the exporters"
    assert card["throttled"] == "the clocks of its GPUs were kept down at some time"


def test_what_one_has_to_know_of_a_run(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=uuid(0), simulated=True)
    world.run(start, start + 60, position=2, gpu=uuid(0))

    def notices(run_id: str, begin: float, end: float) -> list[str]:
        rows = query(world, "select code from run_notice(%s, to_timestamp(%s), to_timestamp(%s))", run_id, begin, end)
        return [code for (code,) in rows]

    assert notices(run, start, start + 60) == ["shared_resource", "simulated_gpu"]
    assert notices(run, start + 100, start + 160) == ["outside_range", "shared_resource", "simulated_gpu"]
    assert ("gpus_left_out", ["20/1/1"], {"total": 1, "drawn": 0}) in query(
        world, 'select code, runs, "values" from run_notice(%s, now(), now(), 0)', run
    )
    assert notices("", start, start + 60) == notices("missing", start, start + 60) == ["no_runs"]
    world.connection.execute("update runs set status = 'failed', reason = 'exit status 3' where run_id = %s", (run,))
    assert ("ended_early", ["20/1/1"], {"status": "failed", "cause": "exit status 3"}) in query(
        world, 'select code, runs, "values" from run_notice(%s, now(), now())', run
    )


@pytest.mark.parametrize("over", [False, True])
def test_the_energy_of_a_run_is_that_of_its_summary(world: World, start: float, over: bool) -> None:
    run = world.run(start, start + 60 if over else None, gpu=uuid(0))
    world.write(
        *(
            world.scraped(
                [
                    (
                        start + at,
                        f'bench_gpu_attributed_energy_joules_total{{UUID="{uuid(n)}",run_id="{run}"}} {at * 100}\n'.encode(),
                    )
                    for at in range(60)
                ],
                "nvml",
            )
            for n in (0, 1)
        )
    )
    if over:
        world.connection.execute("select summarise(%s)", (run,))
    assert query(world, "select * from run_energy(%s)", run) == [(pytest.approx(2 * 5900), "above idle")]
    assert query(world, "select * from run_energy('missing')") == []


def test_the_energy_of_a_run_without_a_share(world: World, start: float) -> None:
    alone = world.run(start, start + 60, gpu=uuid(0))
    shared = [world.run(start, start + 60, gpu=uuid(1), position=position) for position in (2, 3)]
    times = [start + 0.5 + at for at in range(60)]
    world.write(
        *(world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [100.0] * 60, {"UUID": uuid(n)}, "dcgm") for n in (0, 1))
    )
    world.connection.execute("select summarise(run_id) from runs")
    assert query(world, "select * from run_energy(%s)", alone) == [(pytest.approx(6000), "whole GPUs")]
    assert query(world, "select * from run_energy(%s)", shared[0]) == [(None, None)]


def test_a_quantity_on_each_device_by_its_name(world: World, start: float) -> None:
    run = world.run(start, start + 10, gpu=uuid(0), gpu_instance=7)
    labels = {"UUID": uuid(0), "gpu": "0", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb"}
    times = [start + at for at in range(10)]
    world.write(world.gauge("bench_gpu_graphics_active_ratio", times, [0.5] * 10, labels, "nvml"))
    rows = query(
        world,
        "select device, scope, min(value), count(*)::int"
        " from run_devices_chart(%s, 'gpu_utilization', null, null, 1000) group by 1, 2",
        run,
    )
    assert rows == [("GPU 0 · 1g.10gb #7", "instance", 0.5, 10)]


def test_neighbours_from_the_nearest_to_the_farthest(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu=uuid(0), gpu_instance=7)
    world.run(start - 50, start + 50, position=2, gpu=uuid(0), gpu_instance=7, name="close")
    world.run(start, start + 100, position=3, gpu=uuid(0), gpu_instance=9, name="near")
    world.run(start, None, workload=2, gpu=uuid(1), name="far")
    world.run(start - 100, start, workload=3, gpu=uuid(0), name="before")
    rows = query(world, "select run, shared, status, share from run_neighbours(%s)", run)
    assert rows == [
        ("20/1/2 close", "instance", "finished", 0.5),
        ("20/1/3 near", "GPU", "finished", 1.0),
        ("20/2/1 far", "host", "running", 1.0),
    ]


def test_phases_of_one_process_with_those_that_nest_below(world: World, start: float) -> None:
    run = world.run(start, start + 100)
    span(world, run, "a", "phase", start, start + 80)
    span(world, run, "b", "phase", start + 10, start + 20, parent="a")
    span(world, run, "e", "epoch", start + 10, start + 20, parent="a")
    span(world, run, "open", "phase", start + 80, None)
    span(world, run, "other", "phase", start + 1, start + 80, pid=2)
    rows = query(
        world,
        "select line, name, color, extract(epoch from time)::float8 - %s, extract(epoch from ended)::float8 - %s"
        " from run_phases(%s, to_timestamp(%s), to_timestamp(%s))",
        start, start, run, start + 5, start + 200,
    )  # fmt: skip
    assert rows == [
        ("epoch", "epoch e", "0", 10, 20),
        ("phase", "phase a", "0", 5, 80),
        ("phase", "phase open", "3", 80, 100),
        ("phase 2", "phase b", "2", 10, 20),
    ]


def test_steps_a_second_by_spans(world: World, start: float) -> None:
    run = world.run(start, start + 100)
    for number in range(40):
        span(world, run, str(number), "step", start + number / 2, start + number / 2 + 0.25)
        span(world, run, f"other {number}", "step", start + number / 2 + 0.01, start + number / 2 + 0.26, pid=2)
    rows = query(
        world,
        "select source, value from run_steps(%s, to_timestamp(%s), to_timestamp(%s), 1000) order by time",
        run, start + 10, start + 20,
    )  # fmt: skip
    assert {source for source, _ in rows} == {"spans"}
    assert [value for _, value in rows[1:]] == [pytest.approx(2)] * (len(rows) - 1)


def test_steps_a_second_by_what_was_logged(world: World, start: float) -> None:
    run = world.run(start, start + 100)
    world.connection.execute(
        "insert into software_metrics select %s, key, 10 * n, to_timestamp(%s + n), n, 1.0"
        " from generate_series(1, 50) n, unnest(array['loss', 'accuracy']) key where key = 'loss' or n %% 5 = 0",
        (run, start),
    )
    rows = query(
        world,
        "select distinct source, value from run_steps(%s, to_timestamp(%s), to_timestamp(%s), 5000)",
        run,
        start,
        start + 100,
    )
    assert rows == [("loss", pytest.approx(10))]
    assert query(world, "select * from run_steps('missing', now() - interval '1 h', now(), 1000)") == []


def test_links_lead_to_ranges_that_show_all_of_a_run_and_of_its_workload(world: World) -> None:
    run = world.run(1_700_000_000.0, 1_700_000_060.5)
    world.run(1_700_000_000.0, 1_700_000_100.0, position=2)
    [(whole, workload)] = query(world, "select whole, workload from run_links(%s)", run)
    assert whole == "from=1700000000000&to=1700000060500"
    [(workload_id,)] = query(world, "select workload_id from workloads")
    assert workload == (
        f"var-experiment=20&var-workload={workload_id}&from=1970-01-01T00:00:00.000Z&to=1970-01-01T00:01:41.000Z"
    )


def test_the_health_of_a_training(world: World, start: float) -> None:
    run, other = (world.run(start, start + 600, position=n) for n in (1, 2))
    health(world.connection, run, start, 600, steps=60)
    health(world.connection, run, start, 600, steps=60, seed=2, pid=2)
    bounds = (start, start + 600)
    statement = "select {} from {}, to_timestamp(%s), to_timestamp(%s), 60000) order by 1"
    norm = "run_tensors(%s, 'gradients', 'norm', null, null"
    found = query(world, statement.format("time, name, low <= value and value <= high", norm), run, *bounds)
    assert 10 <= len(found) <= 11
    assert {(name, inside) for _, name, inside in found} == {(None, True)}
    assert query(world, statement.format("time", norm), other, *bounds) == []
    extremes = "select extreme_tensors(%s, 'gradients', 'l2', 4)"
    [(names,)] = query(world, extremes, run)
    assert len(names) == 4
    assert {"embed.weight", "head.weight"} <= set(names)
    assert query(world, extremes, other) == [([],)]
    rows = query(
        world,
        "select distinct metric from run_gradients(%s, 5, to_timestamp(%s), to_timestamp(%s), 1000)",
        run,
        *bounds,
    )
    assert sorted(name for (name,) in rows) == [
        "01 embed.weight", "04 encoder.0.mlp.down.weight", "07 encoder.1.mlp.down.weight", "10 encoder.2.mlp.down.weight",
        "13 encoder.3.mlp.down.weight",
    ]  # fmt: skip
    bins = query(
        world, "select time, value from run_gradients(%s, 1, to_timestamp(%s), to_timestamp(%s), 1000)", run, *bounds
    )
    assert 50 <= len(bins) <= 61, "a cell for each watched step, not for each second"
    assert all(value < 1 for _, value in bins)


def test_the_share_of_steps_spent_waiting(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    for at in range(6):
        span(world, run, f"s{at}", "step", start + 10 * at, start + 10 * at + 10)
    statement = "select value from run_waits(%s, to_timestamp(%s), to_timestamp(%s), 1e12)"
    assert query(world, statement, run, start, start + 60) == []
    world.connection.execute(
        "update spans set data_wait = case span_id when 's0' then 4 else 0.4 end where span_id < 's5'"
    )
    assert query(world, statement, run, start, start + 60) == [(pytest.approx(5.6 / 50),)]


def test_a_wait_before_its_step_adds_to_the_time(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    for at in range(6):
        span(world, run, f"s{at}", "step", start + 10 * at + 6, start + 10 * at + 10)
    world.connection.execute("update spans set data_wait = 6")
    statement = "select value from run_waits(%s, to_timestamp(%s), to_timestamp(%s), 1e12)"
    assert query(world, statement, run, start, start + 60) == [(pytest.approx(0.6),)]
    world.connection.execute("update spans set started_at = ended_at, data_wait = 0")
    assert query(world, statement, run, start + 59, start + 61) == []
