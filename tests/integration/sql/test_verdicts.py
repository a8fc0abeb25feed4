"""Verdicts on runs: the best, what may be as good, and trust."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.insight.comparison.ranking import extremes
from tests.support.results import fail, log, workloads
from tests.support.world import World, one, rows

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"


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
