"""Results of runs and workloads: means over repetitions, changes, many curves."""

from __future__ import annotations

import math
import time

import pytest

from tests.support.results import fail, log, workloads
from tests.support.world import World, one, rows

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"
RESULTS = "select title, status, n, failed, seconds, seconds_change, last, last_change from run_results(%s, %s, 'loss')"


def test_attempts_of_a_row_are_one_result(world: World) -> None:
    first = [world.run(START + 200 * n, START + 200 * n + 100 + n, attempt=n + 1) for n in range(3)]
    second = [world.run(START + 200 * n, START + 200 * n + 150 + n, position=2, attempt=n + 1) for n in range(2)]
    fail(world, first[2])
    for run, loss in zip([*first, *second], (0.4, 0.6, 9.0, 0.2, 0.2), strict=True):
        log(world, run, "loss", 2.0, loss)
    found = rows(world, RESULTS, [*first, *second], first[0])
    # The failed attempt counts as failed, and not in the means.
    assert [row[:5] for row in found] == [
        ("20/1/1 train", "failed", 2, 1, 100.5), ("20/1/2 train", "finished", 2, 0, 150.5),
    ]  # fmt: skip
    assert [row[6] for row in found] == [pytest.approx(0.5), pytest.approx(0.2)]
    assert found[0][5] is None, "the baseline does not differ from itself"
    assert found[1][5].startswith("+50% (+")
    assert found[1][7].startswith("≈ -60%")


def test_a_change_against_other_work_is_marked(world: World) -> None:
    def run(workload: int, name: str, seconds: float) -> str:
        return world.run(START, START + seconds, workload=workload, name=name, command=f"{name}.py")

    runs = [run(1, "a", 100), run(2, "a", 150), run(3, "b", 50)]
    found = "select seconds_change from run_results(%s, %s)"
    assert rows(world, found, runs, runs[0]) == [(None,), ("+50%",), ("≠ -50%",)]
    assert rows(world, found, runs, runs[2]) == [("≠ +100%",), ("≠ +200%",), (None,)]
    first, *_ = ids = workloads(world)
    found = "select seconds_change, throughput_change from workload_results(%s, 'runs per hour', %s)"
    assert rows(world, found, ids, str(first)) == [(None, None), ("+50%", "-33%"), ("≠ -50%", "≠ +100%")]
    for run_id, threads in zip(runs, (4.0, 6.0, 1.0), strict=True):
        times = [START + n for n in range(1, 50)]
        world.write(world.gauge("bench_process_threads", times, [threads] * 49, {"run_id": run_id}))
    world.connection.execute("select summarise(run_id) from runs")
    found = "select mean, mean_change from workload_values_against(%s, '{threads}', %s)"
    assert rows(world, found, ids, str(first)) == [(4, None), (6, "+50%"), (1, "≠ -75%")]
    # Different names for each row of a program: variants of one work.
    world.connection.execute("update runs set command = 'train.py', name = name || workload_id")
    assert rows(world, "select seconds_change from run_results(%s, %s)", runs, runs[0]) == [
        (None,),
        ("+50%",),
        ("-50%",),
    ]


def test_energies_of_one_kind_are_compared(world: World) -> None:
    alone = world.run(START, START + 100, gpu=GPU)
    shared = world.run(START + 200, START + 300, gpu=GPU, position=2)
    world.run(START + 200, START + 300, gpu=GPU, position=3)
    times = [START + n for n in range(1, 301)]
    world.write(
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [100.0] * 300, {"UUID": GPU}),
        world.gauge("bench_gpu_attributed_energy_joules_total", times[200:], [30.0] * 100, {"run_id": shared}),
    )
    world.connection.execute("select summarise(run_id) from runs")
    statement = "select energy, energy_of, energy_change, shared from run_results(%s, %s)"
    assert rows(world, statement, [alone, shared], alone) == [
        (pytest.approx(10_000, rel=0.02), "whole GPUs", None, False),
        (pytest.approx(3000, rel=0.02), "above idle", None, True),
    ]
    assert (
        one(world, "select leanest from run_verdict(%s)", [alone, shared]) == "not compared: some include idle energy"
    )
    assert one(world, "select leanest from run_verdict(%s)", [shared]) == "only 20/1/2 train: 2970 J"


def test_values_of_a_whole_gpu_are_marked(world: World) -> None:
    alone = world.run(START, START + 100, gpu=GPU)
    beside = [world.run(START + 200, START + 300, gpu=GPU, workload=2, position=n) for n in (1, 2)]
    times = [START + n for n in range(1, 301)]
    for metric in ("bench_gpu_sm_active_ratio", "bench_gpu_utilization_ratio"):
        world.write(world.gauge(metric, times, [0.2] * 150 + [0.9] * 150, {"UUID": GPU}))
    found = rows(world, "select sm_mark, utilization_mark from run_results(%s)", [alone, *beside])
    assert found == [(None, None), ("†", "†"), ("†", "†")]
    ranked = """
        select run_id from run_values(%s, '{gpu_sm_active}') order by shared_mark(scope) is not null, mean desc nulls last
    """
    assert rows(world, ranked, [alone, *beside])[0] == (alone,), "the whole GPU's value is higher, and no run's own"


def test_an_equal_part_of_energy_is_nobodys_own(world: World) -> None:
    """Under MPS the driver reports no shares, so that a small run beside a large one would seem to need half of all."""
    alone = world.run(START, START + 100, gpu=GPU)
    pair = [world.run(START + 200, START + 300, gpu=GPU, workload=2, position=n, collocation="MPS") for n in (1, 2)]
    times = [START + n for n in range(1, 301)]
    for run, watts, at, method in ((alone, 30, 0, "sm_time"), *((run, 10, 200, "mps_clients") for run in pair)):
        labels = {"run_id": run, "method": method}
        world.write(
            world.gauge("bench_gpu_attributed_energy_joules_total", times[at : at + 100], [watts] * 100, labels)
        )
    world.connection.execute("select summarise(run_id) from runs")
    statement = "select energy, energy_of, energy_change from run_results(%s, %s)"
    part = (pytest.approx(1000, rel=0.02), "divided evenly")
    assert rows(world, statement, [alone, *pair], alone) == [
        (pytest.approx(3000, rel=0.02), "above idle", None),
        (*part, None),
        (*part, None),
    ]
    assert one(world, "select leanest from run_verdict(%s)", [alone, *pair]) == "20/1/1 train: 2970 J (1 of 3 known)"
    assert one(world, "select leanest from run_verdict(%s)", pair) == "not known: GPUs were shared"


def test_the_work_of_runs_is_that_in_their_experiment(world: World) -> None:
    """Two networks that ran alone and beside each other do two works, also in the workload that has both."""
    alone = [world.run(START, START + 30 + n, workload=n, name=name) for n, name in enumerate(("narrow", "wide"), 1)]
    beside = [
        world.run(START, START + 40 + n, workload=3, position=n, name=name) for n, name in ((1, "narrow"), (2, "wide"))
    ]
    sweep = [world.run(START, START + 50 + n, experiment=21, position=n, name=f"lr {n}") for n in (1, 2, 3)]
    works = "select run_id, work from run_works(%s)"
    whole = dict(rows(world, works, [*alone, *beside, *sweep]))
    assert [whole[run] for run in (*alone, *beside)] == ["narrow", "wide"] * 2
    assert {whole[run] for run in sweep} == {"train.py"}, "variants of one work"
    for chosen in (alone, beside, [beside[1]], sweep[:1], [beside[0], sweep[0]]):
        assert dict(rows(world, works, chosen)) == {run: whole[run] for run in chosen}
    again = [
        world.run(START, START + 60 + n, experiment=22, position=n, name=name)
        for n, name in ((1, "narrow"), (2, "wide"))
    ]
    assert {work for _, work in rows(world, works, again)} == {"train.py"}
    assert dict(rows(world, works, [*again, alone[0]])) == {
        again[0]: "narrow",
        again[1]: "wide",
        alone[0]: "narrow",
    }, "names tell the works of both experiments"
    assert rows(world, "select seconds_change from run_results(%s, %s)", [alone[0], again[0]], alone[0]) == [
        (None,),
        ("+97%",),
    ]
    fastest = "select fastest from run_verdict(%s)"
    assert one(world, fastest, beside) == "not compared: different work"
    assert one(world, fastest, sweep[:2]) == "21/1/1 lr 1: 51.0 s (worst 21/1/2: 52.0 s)"
    assert rows(world, "select seconds_change from run_results(%s, %s)", beside, beside[0]) == [(None,), ("≠ +2.4%",)]


def test_a_mean_needs_a_value_of_each_attempt(world: World) -> None:
    """A loss that became NaN is no sample of the others, and its last finite value is not its last."""
    runs = [world.run(START + 100 * n, START + 100 * n + 90, attempt=n + 1) for n in range(4)]
    whole = [world.run(START + 100 * n, START + 100 * n + 90, position=2, attempt=n + 1) for n in range(2)]
    for n, run in enumerate(runs):
        log(world, run, "loss", 0.2, 0.1 if n == 0 else math.nan)
    for run in whole:
        log(world, run, "loss", 2.0, 0.5)
    found = rows(world, RESULTS, [*runs, *whole], whole[0])
    assert [(row[2], row[6], row[7]) for row in found] == [(4, None, None), (2, 0.5, None)]
    assert rows(world, "select value from last_values(%s, '{loss}') order by 1", runs) == [(0.1,), *[(None,)] * 3]
    best = "select best from run_verdict(%s, 'loss')"
    assert one(world, best, [*runs, *whole]) == "20/1/2 train: 0.5 (1 of 2 known)"
    once = [runs[3], whole[1]]
    assert one(world, best, once) == "20/1/2 train: 0.5 (1 of 2 known)"
    assert rows(world, "select last from parameter_results(%s, 'lr', 'loss')", once) == [(None,), (0.5,)]
    assert rows(world, "select title, last from curve_titles(%s, '{loss}') order by nth", once) == [
        ("20/1/1 train", "NaN"),
        ("20/1/2 train", "0.5"),
    ]


def test_the_mean_of_a_workload_needs_a_value_of_each_run(world: World) -> None:
    runs = [world.run(START, START + 60, position=n) for n in (1, 2)]
    times = [START + n for n in range(1, 61)]
    world.write(world.gauge("bench_process_threads", times, [4.0] * 60, {"run_id": runs[0]}))
    log(world, runs[0], "images_per_second", 10.0)
    world.connection.execute("select summarise(run_id) from runs")
    ids = workloads(world)
    values = "select runs, mean, total from workload_values(%s, '{threads}')"
    assert rows(world, values, ids) == [(1, None, None)]
    throughput = "select throughput from workload_results(%s, 'images_per_second')"
    assert rows(world, throughput, ids) == [(None,)]
    world.connection.execute("update runs set command = 'other.py' where run_id = %s", (runs[1],))
    assert rows(world, throughput, ids) == [(10,)], "another program has none to log"


@pytest.mark.parametrize(
    ("mine", "base", "text"),
    [
        ([-3.0], [-2.0], "-50%"),
        ([-1.0], [-2.0], "+50%"),
        ([-3.0, -3.2], [-2.0, -2.1], "-51% (-"),
        ([-2.0, -2.2], [-2.0, -2.1], "≈ -2.4% (-"),
        ([1.0], [-2.0], "+150%"),
        ([-1.0], [2.0], "-150%"),
        ([-1.0, -1.1], [2.0, 2.1], "-151%"),
        ([1.0], [0.0], None),
        ([3.0, None], [2.0, 2.1], None),
        ([3.0, 3.1], [2.0, None], None),
    ],
)
def test_a_change_is_relative_to_the_size_of_its_baseline(
    world: World, mine: list[float | None], base: list[float | None], text: str | None
) -> None:
    found = one(world, "select (select change_text(%s::float8[], %s::float8[]))", mine, base)
    assert found is None if text is None else found.startswith(text), found
    low, high = one(world, "select low, high from change(%s::float8[], %s::float8[])", mine, base)
    assert low is None or low <= high


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "00:00:00.0"),
        (19.46, "00:00:19.5"),
        (59.97, "00:01:00.0"),
        (599.96, "00:10:00.0"),
        (600, "00:10:00"),
        (3599.99, "01:00:00"),
        (604_200, "167:50:00"),
        (None, None),
    ],
)
def test_a_duration_is_shown_to_a_fifth_of_a_percent(world: World, seconds: float | None, text: str | None) -> None:
    assert one(world, "select (select clock_text(%s::float8))", seconds) == text


WORKLOADS = """
    select runs, failed, n, seconds, seconds_change, throughput, throughput_change
    from workload_results(%s, 'runs per hour', %s)
"""


def test_repetitions_of_a_workload_have_a_mean_and_an_interval(world: World) -> None:
    for attempt in range(3):
        at = START + 300 * attempt
        world.run(at, at + 90, attempt=attempt + 1)
        world.run(at + 5, at + 100 + attempt, position=2, attempt=attempt + 1)
        world.run(at + 150, at + 200 + attempt, workload=2, attempt=attempt + 1)
    ids = workloads(world)
    first, second = rows(world, WORKLOADS, ids, str(ids[0]))
    assert first == (2, 0, 3, 101, None, pytest.approx(7200 / 101, rel=1e-3), None)
    assert second[:4] == (1, 0, 3, 51)
    assert second[4].startswith("-50% (-5")
    # An attempt that failed leaves two whole repetitions.
    [run] = [row[0] for row in rows(world, "select run_id from runs where attempt = 2 and position = 2")]
    fail(world, run)
    assert one(world, "select n, attempted from workload_results(%s, 'runs per hour') limit 1", ids) == (2, 3)
    assert one(world, "select seconds from workload_results(%s, 'runs per hour') limit 1", ids) == 101


def test_without_a_whole_repetition_the_latest_attempts_count(world: World) -> None:
    world.run(START, START + 100)
    failed = world.run(START, START + 20, position=2)
    fail(world, failed)
    ids = workloads(world)
    assert rows(world, WORKLOADS, ids, str(ids[0])) == [(2, 1, 0, 100, None, 36, None)]
    world.run(START, START + 10, position=3)
    world.connection.execute("update runs set status = 'running', ended_at = null where position = 3")
    assert one(world, "select failed, unfinished from workload_results(%s, 'runs per hour')", ids) == (1, 2)
    world.connection.execute("delete from runs where position = 3")
    world.run(START + 200, START + 290, position=2, attempt=2)
    [(runs, bad, n, seconds, *_)] = rows(world, WORKLOADS, ids, str(ids[0]))
    assert (runs, bad, n, seconds) == (2, 0, 0, None), "they did not run at the same time"
    world.run(START + 300, START + 400, workload=2)
    both = one(world, "select fastest from workload_verdict(%s, 'runs per hour')", workloads(world))
    assert both == "only 20/2 train: 00:01:40.0; 1 did not finish"
    assert one(world, "select failed from workload_verdict(%s, 'runs per hour')", ids) == "none of 2"


def test_many_curves_are_gray_but_for_the_extremes(world: World) -> None:
    runs = [world.run(START, START + 60, position=n) for n in range(1, 14)]
    times = [START + n for n in range(1, 61)]
    world.write(
        *(
            world.gauge("bench_process_cpu_seconds_total", times, [float(n)] * 60, {"run_id": run}, exporter="process")
            for n, run in enumerate(runs, 1)
        )
    )
    world.connection.execute("select summarise(run_id) from runs")
    fail(world, runs[5])
    colored = "select run from curve_titles(%s, '{cpu_usage}') where color <> 'gray' order by nth"
    assert rows(world, colored, runs) == [("20/1/1",), ("20/1/6",), ("20/1/13",)]
    assert len(rows(world, colored, runs[:12])) == 12
    assert [row[0] for row in rows(world, "select run from curve_titles(%s, '{cpu_usage}') order by nth", runs)] == [
        f"20/1/{n}" for n in range(1, 14)
    ], "in the order of numbers"
    band = """
        select low, median, high from run_band(%s, '{cpu_usage}', '1970-01-01 00:00:20+00', '1970-01-01 00:00:30+00', 1000, 40)
    """
    found = rows(world, band, runs)
    assert len(found) == 10
    assert found == [(pytest.approx(2.2), 7, pytest.approx(11.8))] * 10
    assert rows(world, band, runs[:12]) == []
    unmeasured = [world.run(START + 100, START + 160, position=n, workload=2) for n in range(1, 4)]
    assert rows(world, band, [*runs[:12], *unmeasured]) == [], "of twelve runs with values"


def test_results_by_a_parameter(world: World) -> None:
    runs = [world.run(START, START + 60 + n, position=n) for n in range(1, 4)]
    for run, rate in zip(runs, ("0.1", "1e-2", "auto"), strict=True):
        world.connection.execute(
            "update runs set params = jsonb_build_object('lr', %s::text, 'seed', '1') where run_id = %s", (rate, run)
        )
        log(world, run, "loss", 1.0, float(len(rate)))
    assert rows(world, "select parameter from parameters(%s)", runs) == [("lr",)]
    found = rows(world, "select x, seconds, last from parameter_results(%s, 'lr', 'loss')", runs)
    assert found == [(0.1, 61, 3), (0.01, 62, 4)]


def test_the_result_is_the_most_significant_metric(world: World) -> None:
    run = world.run(START, START + 60)
    for key in ("lr", "val_accuracy", "training_loss", "system/cpu", "loss"):
        log(world, run, key, 1.0)
    assert [row[0] for row in rows(world, "select * from result_keys(%s)", [run])] == [
        "loss", "val_accuracy", "lr", "training_loss", "system/cpu",
    ]  # fmt: skip
