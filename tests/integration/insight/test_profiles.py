"""Profiles in a database: stored once, by phase, compared per step, drawn in a report."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.dashboards.report.report import render
from hypergauge.dashboards.terminal.profiles import verdict
from hypergauge.insight import profiles
from hypergauge.insight.report import report
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.stacks import Stack
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.runs.profiles import next_number, profile_stacks, store_profile
from hypergauge.sql.runs.profiles import profiles as stored
from hypergauge.sql.runs.selection import RunInfo, select_run
from tests.conftest import Command
from tests.support.world import World, rows

FUNCTIONS = {("main", "step", "forward"): 3.0, ("main", "step"): 1.0, ("main", "load"): 1.0}


@pytest.fixture
def start() -> float:
    return float(time.time() // 1 - 600)


def run(world: World, start: float, position: int, steps: int = 0) -> RunInfo:
    run_id = world.run(start, start + 60, position=position)
    spans = [
        SpanRecord(f"s{at}", None, "step", "step", at, start + at, start + at + 0.5, 1, "main") for at in range(steps)
    ]
    store_spans(world.connection, run_id, spans)
    return select_run(world.connection, run_id)


def store(
    world: World, run: RunInfo, times: dict[tuple[str, ...], float], number: int = 1, profiler: str = "py-spy",
    kind: str = "function", window: tuple[float | None, float | None] = (None, None), rate: float | None = None,
) -> None:  # fmt: skip
    stacks = [Stack(kind, frames, "", None, seconds) for frames, seconds in times.items()]
    store_profile(
        world.connection,
        run.run_id,
        profiler,
        number,
        times=window,
        rate=rate,
        entries=entries(stacks),
        stacks=heaviest(stacks, 100),
    )


def compared(world: World, mine: RunInfo, theirs: RunInfo) -> profiles.Compared:
    ours, others = (
        profiles.content(world.connection, one, profiles.chosen(world.connection, one)) for one in (mine, theirs)
    )
    [found] = profiles.compare_all(world.connection, ours, others)
    return found


def test_a_profile_is_stored_once(world: World, start: float) -> None:
    one = run(world, start, 1)
    for _ in range(2):
        store(world, one, FUNCTIONS)
    [profile] = stored(world.connection, [one.run_id])
    assert (profile.number, profile.problem) == (1, None)
    assert profile.seconds == pytest.approx(60)
    assert (profile.started_at, profile.ended_at) == (one.started_at, one.ended_at)
    assert {stack.frames[-1]: stack.self for stack in profile_stacks(world.connection, profile)} == {
        "forward": 3.0, "step": 1.0, "load": 1.0
    }  # fmt: skip
    assert rows(world, "select name, total, self, share from bench.profile_entries order by total desc, name") == [
        ("main", 5.0, 0.0, 0.0), ("step", 4.0, 1.0, 0.2), ("forward", 3.0, 3.0, 0.6), ("load", 1.0, 1.0, 0.2)
    ]  # fmt: skip
    world.connection.execute("delete from runs where run_id = %s", (one.run_id,))
    assert rows(world, "select count(*) from profile_entries") == [(0,)]
    store(world, one, FUNCTIONS)  # as a delivery does that comes after the removal
    assert rows(world, "select count(*) from profiles") == [(0,)]


def test_profiles_of_a_live_run_have_numbers_of_their_own(world: World, start: float) -> None:
    one = run(world, start, 1)
    assert next_number(world.connection, one.run_id, "py-spy") == 2
    store(world, one, FUNCTIONS, 2)
    assert next_number(world.connection, one.run_id, "py-spy") == 3
    store(world, one, FUNCTIONS)
    store(world, one, FUNCTIONS, profiler="torch", kind="operator")
    assert [(one.profiler, one.number) for one in profiles.chosen(world.connection, one)] == [
        ("py-spy", 2),
        ("torch", 1),
    ]


def test_phases_are_together_or_one_of_them(world: World, start: float) -> None:
    one = run(world, start, 1)
    stacks = [Stack("operator", ("add",), "train", 6, 3.0), Stack("operator", ("add",), "test", 2, 1.0)]
    store_profile(world.connection, one.run_id, "torch", 1, entries=entries(stacks), stacks=heaviest(stacks, 100))
    chosen = profiles.chosen(world.connection, one)

    def add(phase: str | None) -> tuple[int | None, float, float]:
        [found] = profiles.content(world.connection, one, chosen, phase=phase)
        [entry] = found.kinds["operator"]
        return entry.calls, entry.self, entry.share

    assert add(None) == (8, 4.0, 1.0)
    assert add("test") == (2, 1.0, 1.0)
    with pytest.raises(BadRequest, match="did you mean 'test'"):
        add("tests")


def test_times_are_compared_per_step_of_each_run(world: World, start: float) -> None:
    short, long = run(world, start, 1, steps=10), run(world, start, 2, steps=40)
    store(world, short, FUNCTIONS)
    store(world, long, {frames: 4 * seconds for frames, seconds in FUNCTIONS.items()})
    found = compared(world, long, short)
    assert found.per == "step"
    [kind] = found.kinds
    assert (kind.seconds, kind.before) == pytest.approx((0.5, 0.5))
    assert kind.cause is None
    assert all(one.difference == pytest.approx(0) for one in kind.changes)


def test_a_function_that_only_one_run_enters_is_the_cause(world: World, start: float) -> None:
    usual, slow = run(world, start, 1), run(world, start, 2)
    store(world, usual, FUNCTIONS)
    store(world, slow, {**FUNCTIONS, ("main", "load", "augment", "forward"): 8.0, ("main", "load", "augment"): 1.0})
    found = compared(world, slow, usual)
    [kind] = found.kinds
    assert (found.per, kind.cause) == ("run", ("augment", 1.0))
    assert kind.changes[0].name == "forward"
    assert kind.changes[0].share == pytest.approx(8 / 9)
    assert "14.0 s per run in 20/1/2, 5.00 s in 20/1/1.\naugment accounts for 100%" in verdict(found, kind)
    [back] = compared(world, usual, slow).kinds
    assert back.cause == ("augment", 1.0)


def test_of_functions_that_both_enter_the_innermost_is_the_cause(world: World, start: float) -> None:
    usual, slow = run(world, start, 1), run(world, start, 2)
    store(world, usual, FUNCTIONS)
    store(world, slow, {**FUNCTIONS, ("main", "load"): 9.0})
    [kind] = compared(world, slow, usual).kinds
    assert kind.cause == ("load", 1.0)


def test_a_difference_without_one_cause_names_none(world: World, start: float) -> None:
    usual, slow = run(world, start, 1), run(world, start, 2)
    store(world, usual, {("a",): 1.0, ("b",): 1.0})
    store(world, slow, {("a",): 2.0, ("b",): 2.0})
    found = compared(world, slow, usual)
    [kind] = found.kinds
    assert kind.cause is None
    assert "no single entry accounts" in verdict(found, kind)


def test_a_profile_against_itself_says_that_nothing_differs(
    world: World, start: float, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    store(world, run(world, start, 1), {("a",): 1.0, ("b",): 1.0})
    store(world, run(world, start, 2), {("a",): 1.0, ("b",): 2.0})
    assert command("profile", "20/1/1", "--against", "20/1/1") == (
        0, "2.00 s per run in 20/1/1, 2.00 s in 20/1/1; no function differs.\n", "",
    )  # fmt: skip
    shown = command("profile", "20/1/2", "--against", "20/1/1", "--top", "1")[1]
    assert "more: --top" not in shown, "of those that differ"


def test_live_profiles_are_compared_by_the_second(world: World, start: float) -> None:
    usual, slow = run(world, start, 1), run(world, start, 2)
    store(world, usual, {("a",): 10.0}, 2, window=(start, start + 10))
    store(world, slow, {("a",): 20.0}, 2, window=(start, start + 20))
    found = compared(world, slow, usual)
    assert found.per == "second"
    assert (found.kinds[0].seconds, found.kinds[0].before) == pytest.approx((1, 1))


def test_runs_without_a_common_profiler_are_not_compared(world: World, start: float) -> None:
    one, other, bare = (run(world, start, position) for position in (1, 2, 3))
    store(world, one, FUNCTIONS)
    store(world, other, FUNCTIONS, profiler="torch")
    with pytest.raises(NoData, match="other profilers: py-spy; torch"):
        compared(world, one, other)
    with pytest.raises(NoData, match="20/1/3 has no profile"):
        compared(world, one, bare)


def test_a_report_has_a_flame_graph(world: World, start: float) -> None:
    one = run(world, start, 1)
    store(world, one, FUNCTIONS)
    store(world, one, {("gemm",): 1.0}, profiler="ncu", kind="kernel")
    store(world, one, {("<b>", "loop"): 1.0}, profiler="torch", kind="operator")
    found = report(world.connection, ["20"])
    assert [(graph.profile.profiler, graph.kind) for graph in found.flames] == [
        ("py-spy", "function"),
        ("torch", "operator"),
    ]
    page = render(found, {}, "20", datetime.now(UTC))
    section = page[page.index('<section id="profiles"') :].partition("</section>")[0]
    assert "functions, 5.00 s by py-spy" in section
    hints = re.findall(r'title="([^"]*)" style="left:([\d.]+)%;width:([\d.]+)%', section)
    assert ("forward: 3.00 s, 60.0%", "0.0", "60.0") in hints
    assert ("load: 1.00 s, 20.0%", "80.0", "20.0") in hints
    assert "<b>" not in section


def test_samples_without_callers_have_a_flame_graph(world: World, start: float) -> None:
    """Code without frame pointers; whether a sample meets an interrupt of the kernel, with its callers, is chance."""
    one = run(world, start, 1)
    store(world, one, {("hot_loop (libbusy.so)",): 1.5}, profiler="perf-record", kind="native", rate=99.0)
    [graph] = report(world.connection, ["20"]).flames
    assert [(box.name, box.width) for box in graph.boxes] == [("hot_loop (libbusy.so)", 1.0)]
