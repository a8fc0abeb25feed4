"""Replay over many runs: shared by several connections, with the results of one."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from hypergauge.insight import rules
from hypergauge.insight.rules.replay import Evaluated, replay
from hypergauge.insight.rules.rule import Rule
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.server.connections import Connections
from tests.support.data.ruled import LIMIT, rows
from tests.support.world import World

HEADER = '-- name = "{}"\n-- means = "Nothing."\n-- advice = "None: this is a test."\n-- severity = "info"\n'
PLANS = "(select coalesce(max(generic_plans), 0) from pg_prepared_statements where statement like '%%Plans%%')"
ALWAYS = "select now() as started_at, now() as ended_at, '{{}}'::jsonb as evidence where %(run)s <> ''{}"
RUNS = 20


def rule(folder: Path, name: str, statement: str) -> Rule:
    file = folder / f"{name.lower()}.sql"
    file.write_text(HEADER.format(name) + statement)
    return rules.read(file)


@pytest.fixture
def many(world: World) -> list[str]:
    """The ids of the runs, in the order of their labels."""
    start = time.time() // 60 * 60 - 600
    return [world.run(start + at, start + at + 5, workload=at + 1) for at in range(RUNS)]


def replayed(world: World, *chosen: Rule) -> list[Evaluated]:
    return list(
        replay(world.connection, [(one, one.values()) for one in chosen], select_runs(world.connection, []), LIMIT)
    )


def test_results_come_in_the_order_of_the_runs_and_rules(world: World, many: list[str], tmp_path: Path) -> None:
    # The later a run, the sooner its rule ends.
    late = "select started_at, ended_at, jsonb_build_object('run', run_id) as evidence from runs, pg_sleep({}) where run_id = %(run)s"
    slow = rule(tmp_path, "Slow", late.format("0.1 * (run_id < %(run)s || '')::integer + 0.02 * random()"))
    found = replayed(world, slow, rule(tmp_path, "Fast", late.format("0")))
    expected = [(run.run_id, name) for run in select_runs(world.connection, []) for name in ("Slow", "Fast")]
    assert sorted({run for run, _ in expected}) == sorted(many)
    assert [(one.run.run_id, one.rule.name) for one in found] == expected
    assert all(one.firings[0].evidence["run"] == one.run.run_id for one in found)


def test_a_rule_that_fails_on_a_run_leaves_the_others(world: World, many: list[str], tmp_path: Path) -> None:
    broken = rule(tmp_path, "Broken", ALWAYS.format(f" and 1 / (%(run)s <> '{many[3]}')::integer > 0"))
    found = replayed(world, broken, rule(tmp_path, "Sound", ALWAYS.format("")))
    failed = [(one.run.run_id, one.rule.name, one.failure) for one in found if one.failure]
    assert failed == [(many[3], "Broken", "division by zero")]
    assert sum(len(one.firings) for one in found) == 2 * RUNS - 1


def test_a_rule_is_planned_once_and_can_not_write(world: World, many: list[str], tmp_path: Path) -> None:
    plans = (
        "select now() as started_at, now() as ended_at, jsonb_build_object('Plans', {}) as evidence where %(run)s <> ''"
    )
    found = replayed(world, rule(tmp_path, "Planned", plans.format(PLANS)))
    # A statement sees the use of its plan from the next one on.
    assert max(one.firings[0].evidence["Plans"] for one in found) >= RUNS / 4 - 1
    # Any role may create a large object, but PostgreSQL 15 allows that in a read-only transaction.
    world.connection.execute("create sequence public.numbers; grant usage on sequence public.numbers to public")
    writing = rule(tmp_path, "Writing", plans.format("nextval('public.numbers')"))
    assert [one.failure for one in replayed(world, writing) if "read-only transaction" not in (one.failure or "")] == []
    assert rows(world, "select current_setting('transaction_read_only'), current_user = session_user") == [
        ("off", True)
    ]


def test_who_leaves_early_does_not_wait_for_the_rest(world: World, many: list[str], tmp_path: Path) -> None:
    slow = rule(tmp_path, "Slow", ALWAYS.format(f" and (%(run)s = '{many[-1]}' or pg_sleep(600) is not null)"))
    newest_first = sorted(select_runs(world.connection, []), key=lambda run: run.run_id != many[-1])
    began = time.monotonic()
    with closing(replay(world.connection, [(slow, {})], newest_first, timedelta(minutes=10))) as results:  # type: ignore[type-var]
        assert next(results).run.run_id == many[-1]
    assert time.monotonic() - began < 300, "half of the sleep, on the busiest host"


def test_an_error_of_the_work_is_raised_in_its_place(world: World) -> None:
    def work(connection: psycopg.Connection, item: int) -> int:
        connection.execute("select pg_sleep(0.01)")
        return 12 // item

    with Connections.like(world.connection, 3) as connections:
        results = connections.map(work, [3, 4, 0, 6, 1])
        assert [next(results), next(results)] == [4, 3]
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert connections.stopped()
