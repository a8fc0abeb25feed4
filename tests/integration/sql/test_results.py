"""Results of runs and workloads: means over repetitions, verdicts, many curves."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.insight.comparison.ranking import extremes
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.support.world import World, one, rows

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"
RESULTS = "select title, status, n, failed, seconds, seconds_change, last, last_change from run_results(%s, %s, 'loss')"


def workloads(world: World) -> list[int]:
    return [row[0] for row in rows(world, "select workload_id from workloads order by workload")]


def fail(world: World, run: str, status: str = "failed") -> None:
    world.connection.execute("update runs set status = %s where run_id = %s", (status, run))


def log(world: World, run: str, key: str, *values: float) -> None:
    store_software_metrics(
        world.connection, run, [SoftwareMetric(key, n, START + n, value) for n, value in enumerate(values)]
    )


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


def test_a_verdict_names_the_best_of_the_finished_runs(world: World) -> None:
    runs = [world.run(START, START + seconds, position=n) for n, seconds in enumerate((100, 80, 10, 200), 1)]
    fail(world, runs[2])
    for run, accuracy in zip(runs, (0.9, 0.8, 0.99, 0.95), strict=True):
        log(world, run, "accuracy", 0.1, accuracy)
    fastest, leanest, best, failed = one(world, "select * from run_verdict(%s, 'accuracy')", runs)
    assert fastest == "20/1/2 train: 00:01:20.0 (worst 20/1/4: 00:03:20.0)"
    assert leanest == "not measured"
    assert best == "20/1/4 train: 0.95 (worst 20/1/2: 0.8)"
    assert failed == "1 of 4 failed: 20/1/3 train"
    assert one(world, "select best from run_verdict(%s, 'lr')", runs) is None, "its better direction is unknown"
    fail(world, runs[3], "stopped")
    assert (
        one(world, "select failed from run_verdict(%s)", runs)
        == "2 of 4: 1 failed: 20/1/3 train; 1 stopped: 20/1/4 train"
    )
    again = world.run(START + 300, START + 400, position=3, attempt=2)
    assert one(world, "select failed from run_verdict(%s)", [*runs, again]) == "1 of 4 stopped: 20/1/4 train", (
        "each row counts once, by its latest attempt"
    )
    world.connection.execute("delete from runs where run_id = %s", (again,))
    fail(world, runs[3], "finished")
    world.connection.execute("update runs set status = 'running', ended_at = null where run_id = %s", (runs[0],))
    assert one(world, "select failed from run_verdict(%s)", runs) == "1 of 4 failed: 20/1/3 train; 1 running"
    other = world.run(START, START + 50, workload=2, name="other")
    log(world, other, "accuracy", 0.7)
    answers = one(world, "select fastest, best from run_verdict(%s, 'accuracy')", [*runs, other])
    assert answers == (
        "20/1/2 train: 00:01:20.0 (worst 20/1/4: 00:03:20.0); 1 of other work",
        "20/1/4 train: 0.95 (worst 20/2/1: 0.7)",
    ), "durations within one name, software metrics within one program"
    assert one(world, "select * from run_verdict('{}', 'loss')") == (None, None, None, None)


def test_a_diverged_loss_leaves_the_answers_of_the_others(world: World) -> None:
    """Check the largest doubles, whose sums and squares PostgreSQL refuses."""
    runs = [
        world.run(START + 100 * nth, START + 100 * nth + 90, workload=1, position=nth // 2 + 1, attempt=nth % 2 + 1)
        for nth in range(4)
    ]
    for nth, run in enumerate(runs):
        log(world, run, "loss", *([1.7e308 - nth * 1e307, 1.7e308] if nth < 2 else [1.0, 0.5 + nth]))
    assert one(world, "select best from run_verdict(%s, 'loss')", runs)
    assert len(rows(world, "select * from run_results(%s, %s, 'loss')", runs, runs[2])) == 2
    assert len(rows(world, "select * from run_results(%s, %s, 'loss')", runs, runs[0])) == 2


def test_only_runs_of_one_work_are_compared(world: World) -> None:
    def run(workload: int, name: str, seconds: float, command: str = "train.py") -> str:
        return world.run(START, START + seconds, workload=workload, name=name, command=command)

    def fastest(*runs: str, baseline: str | None = None) -> Any:
        return one(world, "select fastest from run_verdict(%s, null, %s)", list(runs), baseline)

    narrow = [run(1, "narrow", 30, "train.py --hidden 96"), run(2, "narrow", 40, "train.py --hidden 96")]
    wide = [run(3, "wide", 50, "train.py --hidden 1536"), run(4, "wide", 50, "train.py --hidden 1536")]
    assert fastest(*narrow, *wide) == "20/1/1 narrow: 30.0 s (worst 20/2/1: 40.0 s); 2 of other work"
    assert fastest(*narrow, *wide, baseline=wide[1]) == "all 50.0 s; 2 of other work"
    assert fastest(narrow[0], wide[0]) == "not compared: different work", "whatever else is selected"
    other = run(5, "other", 10, "python -m other --lr 1")
    assert fastest(narrow[0], other) == "not compared: different work"
    assert fastest(other) == "only 20/5/1 other: 10.0 s"
    alone = fastest(*narrow, *wide, other, baseline=other)
    assert alone.startswith("20/1/1 narrow: "), (
        "a single result has nothing to compare with: the work with most results"
    )
    assert alone.endswith("; 3 of other work")
    # Of workloads, those with the same kinds of runs.
    answers = "select fastest, best from workload_verdict(%s, 'runs per hour', %s)"
    ids = workloads(world)
    assert one(world, answers, ids, None)[0] == "20/1 narrow: 30.0 s (worst 20/2: 40.0 s); 3 of other work"
    assert one(world, answers, ids, str(ids[3]))[0] == "all 50.0 s; 3 of other work"
    assert one(world, answers, ids[3:], None) == ("not compared: different work", "not compared: different work")


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


def test_the_best_of_equal_and_of_missing_values(world: World) -> None:
    statement = "select best_of('{a,b,c}', %s, '{1,2,3}', -1, '{x,x,x}', 'x', '{}')"
    assert one(world, statement, [1, 2, 3]) == "a: 1 (worst c: 3)"
    assert one(world, statement, [None, 2, 3]) == "b: 2 (worst c: 3, 2 of 3 known)"
    assert one(world, statement, [1, None, None]) == "a: 1 (1 of 3 known)"
    assert one(world, statement, [1, 1, 1]) == "all 1"
    assert one(world, statement, [2, 1, 1]) == "b, c: 2 (worst a: 1)"
    assert one(world, statement, [1, 2, 2]) == "a: 1 (worst b, c: 2)"
    assert one(world, statement, [1.00001, 1.0, 2.0]) == "a, b: 1 (worst c: 3)", "they agree in four digits"
    assert one(world, "select (select best_of('{a}', '{null}'::float8[], '{null}', -1, '{x}', 'x', '{}'))") is None


@given(
    values=st.lists(
        st.none()
        | st.floats(-1e300, 1e300, allow_subnormal=False)
        | st.sampled_from([0.1, 0.10001, 0.10005, -2.0, 123.45]),
        max_size=12,
    ),
    direction=st.sampled_from([1, -1]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_equal_results_are_the_same_in_sql_and_python(world: World, values: list[float | None], direction: int) -> None:
    places = one(world, "select places(%s::float8[], %s)", values, direction)
    known = [place for place in places if place is not None]
    assert [place is None for place in places] == [value is None for value in values]
    best, worst = extremes(values, direction)
    if len(set(known)) > 1:
        assert best == [at for at, place in enumerate(places) if place == 1]
        assert worst == [at for at, place in enumerate(places) if place == max(known)]
    else:
        assert (best, worst) == ([], [])


def test_a_verdict_says_where_the_second_best_may_be_as_good(world: World) -> None:
    durations = {1: (100, 104), 2: (101, 105), 3: (200, 204)}
    runs = {
        (position, attempt): world.run(START, START + seconds, position=position, attempt=attempt)
        for position, some in durations.items()
        for attempt, seconds in enumerate(some, 1)
    }

    def fastest(*positions: int) -> str:
        chosen = [run for (position, _), run in runs.items() if position in positions]
        return str(one(world, "select fastest from run_verdict(%s)", chosen))

    assert fastest(1, 2, 3) == "20/1/1 train: 00:01:42.0 (≈ 20/1/2, worst 20/1/3: 00:03:22.0)"
    assert fastest(1, 2) == "20/1/1 train: 00:01:42.0 (≈ 20/1/2: 00:01:43.0)"
    assert fastest(1, 3) == "20/1/1 train: 00:01:42.0 (worst 20/1/3: 00:03:22.0)"
    once = [runs[1, 2], runs[2, 2]]
    assert one(world, "select fastest from run_verdict(%s)", once) == (
        "20/1/1 train: 00:01:44.0 (worst 20/1/2: 00:01:45.0)"
    ), "nothing is known of the noise"


@pytest.mark.parametrize(
    ("notices", "text"),
    [
        ([], "Comparable"),
        ([("running", "info")], "Comparable"),
        (
            [("wide_scope", "warning"), ("wide_scope", "warning"), ("running", "info")],
            "With care: values of shared GPUs or hosts",
        ),
        (
            [(code, "warning") for code in ("throttled", "wide_scope", "profiled", "simulated_gpu", "not_logged")],
            "With care: simulated GPUs (*), profiled runs (◆) and 3 more notices",
        ),
        (
            [("wide_scope", "warning"), ("simulated_gpu", "warning")],
            "With care: simulated GPUs (*), values of shared GPUs or hosts",
        ),
    ],
)
def test_trust_depends_on_warnings(world: World, notices: list[tuple[str, str]], text: str) -> None:
    codes, severities = [code for code, _ in notices], [severity for _, severity in notices]
    assert one(world, "select trust_text(%s, %s)", codes, severities) == text


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
