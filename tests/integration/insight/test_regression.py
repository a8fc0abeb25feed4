"""``bench compare --fail-on`` on attempts in a database."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.comparison.verdicts import Gate, Verdict
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.gate import gated
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.queries.notices import Reason
from tests.conftest import Command
from tests.support.world import World

# How far attempts are from each other: some 2 %.
JITTER = (0.99, 1.02, 1.0, 0.97, 1.02, 0.985)


class Laboratory:
    """Rows with attempts, one after the other."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = time.time() // 600 * 600 - 7200

    def attempts(
        self, paces: Sequence[float], *, experiment: int, position: int = 1, first: int = 1, command: str = "train.py",
        watts: float | None = None, logged: bool = False, simulated: bool = False,
    ) -> list[str]:  # fmt: skip
        """Train 20 steps at each pace (seconds a step), after a second of loading; a power, if any, is 100 W a second's pace."""
        made = []
        for attempt, pace in enumerate(paces, first):
            end = self.now + 1 + 20 * pace
            run = self.world.run(
                self.now, end, experiment=experiment, position=position, attempt=attempt,
                gpu="GPU-1" if watts else None, simulated=simulated,
            )  # fmt: skip
            self.world.connection.execute("update runs set command = %s where run_id = %s", (command, run))
            begins = [self.now + 1 + step * pace for step in range(20)]
            if not logged:
                spans = [
                    SpanRecord(f"{step}", None, "step", "step", step, at, at + 0.9 * pace, 1, "main")
                    for step, at in enumerate(begins)
                ]
                store_spans(self.world.connection, run, spans)
            metrics = [
                SoftwareMetric("loss", step, at + 0.95 * pace, 3.0 - 0.1 * step) for step, at in enumerate(begins)
            ]
            store_software_metrics(
                self.world.connection, run, [*metrics, SoftwareMetric("accuracy", 19, end - 0.1, 0.98)]
            )
            if watts:
                times = [self.now + 1 + at for at in range(int(end - self.now))]
                self.world.write(
                    self.world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [watts * pace] * len(times), {"UUID": "GPU-1"})
                )
            self.now = end + 5
            made.append(run)
        return made


@pytest.fixture
def laboratory(world: World) -> Laboratory:
    return Laboratory(world)


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command over the world's database."""
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> tuple[int, str, str]:
        return command("compare", *words)

    return run


def gate(world: World, selectors: str, *conditions: str, **options: Any) -> Gate:
    found = gated(world.connection, selectors.split(), [Condition.parse(text) for text in conditions], **options)
    assert found.gate is not None
    return found.gate


def only(found: Gate) -> Verdict:
    [verdict] = found.verdicts
    return verdict


def test_a_slower_row_fails_and_one_that_is_not_passes(laboratory: Laboratory, bench: Command) -> None:
    laboratory.attempts(JITTER, experiment=20, watts=100)
    laboratory.attempts(JITTER, experiment=20, position=2, command="wide.py")
    laboratory.attempts([1.1 * one for one in reversed(JITTER)], experiment=21, watts=100)
    laboratory.attempts(JITTER[1:], experiment=21, position=2, command="wide.py")
    request = ("21", "--baseline", "20", "--fail-on", "step_time>+3%")
    status, output, _ = bench(*request)
    assert status == 1
    assert "✗ 21/1/1: step_time changed by +10.0% (90% interval +7.7% to +12.4%), above +3%: p = 0.0007" in output
    assert "✓ 21/1/2: step_time changed by" in output
    assert "Welch's statistic " in output
    assert "Holm's method " in output

    status, output, _ = bench(*request, "--json")
    found = json.loads(output)["gate"]
    assert (status, found["failed"], found["tests"], found["alpha"]) == (1, True, 2, 0.05)
    slower, same = found["verdicts"]
    assert (slower["row"], slower["outcome"], slower["threshold"]) == ("21/1/1", "failed", 0.03)
    assert slower["new"]["n"] == 6
    assert slower["old"]["values"] == {f"20/1/1@{at}": pytest.approx(0.9 * pace) for at, pace in enumerate(JITTER, 1)}
    assert slower["statistics"]["change"] == pytest.approx(0.1)
    assert slower["statistics"]["low"] > 0.03
    assert slower["statistics"]["effect"] > 4
    assert slower["statistics"]["visible"] == pytest.approx(1.03**2 - 1)
    assert (same["row"], same["old"]["row"], same["outcome"]) == ("21/1/2", "20/1/2", "passed")

    assert bench("21/1/2", "--baseline", "20/1/2", "--fail-on", "step_time>+3%")[0] == 0
    # The energy is that of the whole GPU, which each had to itself: pace and power rise, and so it does by a fifth.
    assert bench("21/1/1", "--baseline", "20/1/1", "--fail-on", "energy>+5%")[0] == 1
    assert bench("21/1/1", "--baseline", "20/1/1", "--fail-on", "energy>+30%")[0] == 0


def test_values_by_their_names(laboratory: Laboratory, world: World) -> None:
    laboratory.attempts(JITTER, experiment=20)
    laboratory.attempts([1.1 * one for one in JITTER], experiment=21)
    expected = {
        "duration>+5%": "failed",
        "duration_seconds>+15%": "passed",
        "throughput<-5%": "failed",
        "throughput<-15%": "passed",
        "accuracy<-1%": "passed",
        "loss>+1%": "passed",
        "duration>22s": "failed",
        "duration>1min": "passed",
        "accuracy<0.99": "failed",
        "energy>+5%": "undecided",
    }
    found = gate(world, "21", *expected, baseline="20")
    assert {one.condition: one.outcome for one in found.verdicts} == expected
    assert found.tests == 6
    assert found.verdicts[-1].reason == Reason("not_measured", {"metric": "energy", "rows": ["21/1/1", "20/1/1"]})
    assert found.verdicts[-1].text == "21/1/1: no finished attempt of 21/1/1 and 20/1/1 has energy"


def test_steps_count_that_software_metrics_report(laboratory: Laboratory, world: World) -> None:
    laboratory.attempts(JITTER, experiment=20, logged=True)
    laboratory.attempts([1.1 * one for one in JITTER], experiment=21, logged=True)
    for options in ({}, {"align": "step"}, {"align": "time"}):
        found = only(gate(world, "21", "step_time>+3%", baseline="20", **options))
        assert found.outcome == "failed"
        assert found.new.mean == pytest.approx(1.1 * sum(JITTER) / 6)


def test_a_gate_is_about_the_part_that_runs_have_in_common(laboratory: Laboratory, world: World) -> None:
    """Over their first steps both took as long; the new one went on, and was stopped in the middle of it by nothing."""
    laboratory.attempts(JITTER, experiment=20)
    laboratory.attempts(JITTER, experiment=21)
    world.connection.execute("update spans set step = step + 10 where run_id in (select run_id from runs join workloads"
                             " using (workload_id) where experiment_id = 21)")  # fmt: skip
    found = gated(world.connection, ["21"], [Condition.parse("duration>+3%")], baseline="20", align="step")
    assert found.window is not None
    assert (found.window.first, found.window.last) == (10, 20)
    assert found.gate is not None
    [verdict] = found.gate.verdicts
    assert verdict.outcome == "passed"
    assert verdict.new.mean == pytest.approx(9.9 * sum(JITTER) / 6, abs=0.01)
    assert only(gate(world, "21", "step_time>+3%", baseline="20", align="step")).new.mean == pytest.approx(
        0.9 * sum(JITTER) / 6
    )


def test_one_attempt_has_no_verdict(laboratory: Laboratory, world: World, bench: Command) -> None:
    laboratory.attempts(JITTER, experiment=20)
    laboratory.attempts([2.0], experiment=21)
    verdict = only(gate(world, "21", "step_time>+3%", baseline="20"))
    assert verdict.outcome == "undecided"
    assert verdict.text.startswith("21/1/1: nothing can be concluded on step_time from one attempt of 21/1/1: ")
    assert all(part in verdict.text for part in ("measured", "7 attempts", "+6.1%", "80%", "--repeat 7"))
    status, output, _ = bench("21", "--baseline", "20", "--fail-on", "step_time>+3%")
    assert status == 1
    assert "nothing can be concluded on step_time" in output
    without_spread = gate(world, "21", "step_time>+3%", baseline="20/1/1@1").verdicts[0].text
    assert all(part in without_spread for part in ("21/1/1 and 20/1/1", "2% assumed", "7 attempts"))
    assert only(gate(world, "21", "step_time>1s")).outcome == "failed", "a bound needs no repetition"


def test_few_attempts_come_with_their_detectable_difference(laboratory: Laboratory, world: World) -> None:
    laboratory.attempts(JITTER[:3], experiment=20)
    laboratory.attempts([1.02 * one for one in JITTER[1:4]], experiment=21)
    verdict = only(gate(world, "21", "step_time>+3%", baseline="20"))
    assert verdict.outcome == "passed"
    assert verdict.statistics is not None
    assert verdict.statistics.power < 0.5
    assert f"power of 80% takes {verdict.statistics.repetitions} attempts" in verdict.text


def test_attempts_of_one_row_are_set_against_its_others(laboratory: Laboratory, world: World) -> None:
    laboratory.attempts([*JITTER[:3], *(1.2 * one for one in JITTER[:3])], experiment=20)
    found = only(gate(world, "20/1/1@4 20/1/1@5 20/1/1@6", "step_time>+3%", baseline="20"))
    assert found.old is not None
    assert (list(found.new.values), list(found.old.values)) == (
        ["20/1/1@4", "20/1/1@5", "20/1/1@6"], ["20/1/1@1", "20/1/1@2", "20/1/1@3"],
    )  # fmt: skip
    assert found.outcome == "failed"


def test_rows_are_matched_by_configuration_then_by_position(laboratory: Laboratory, world: World) -> None:
    for position, command in enumerate(("a.py", "b.py", "c.py", "c.py"), 1):
        laboratory.attempts(JITTER[:2], experiment=20, position=position, command=command)
    for position, command in enumerate(("b.py", "other.py", "c.py", "c.py", "d.py"), 1):
        laboratory.attempts(JITTER[:2], experiment=21, position=position, command=command)
    found = gate(world, "21", "duration>+50%", baseline="20")
    assert [(one.new.row, one.old and one.old.row) for one in found.verdicts] == [
        ("21/1/1", "20/1/2"),
        ("21/1/2", "20/1/2"),
        ("21/1/3", "20/1/3"),
        ("21/1/4", "20/1/4"),
    ]
    by_position, alone = found.notes
    assert by_position.startswith("21/1/2 is compared with 20/1/2")
    assert alone.startswith("21/1/5 has no counterpart")
    assert {one.old and one.old.row for one in gate(world, "21", "duration>+50%", baseline="20/1/1").verdicts} == {
        "20/1/1"
    }


def diverge(laboratory: Laboratory, *runs: str) -> None:
    """Log a loss that is not finite after the others."""
    for run in runs:
        metrics = [SoftwareMetric("loss", 30, laboratory.now, math.nan)]
        store_software_metrics(laboratory.world.connection, run, metrics)


def test_a_gate_with_diverged_attempts_fails(laboratory: Laboratory, world: World, bench: Command) -> None:
    runs = laboratory.attempts(JITTER[:4], experiment=20)
    assert only(gate(world, "20", "loss>1.2")).outcome == "passed"
    diverge(laboratory, *runs[1:])
    verdict = only(gate(world, "20", "loss>1.2"))
    assert verdict.outcome == "failed"
    assert verdict.reason == Reason("not_finite", {"metric": "loss", "attempts": ["20/1/1@2", "20/1/1@3", "20/1/1@4"]})
    assert verdict.new.missing == dict.fromkeys(["20/1/1@2", "20/1/1@3", "20/1/1@4"], "not_finite")
    status, output, _ = bench("20", "--fail-on", "loss>1.2")
    assert (status, "20/1/1@2, 20/1/1@3, 20/1/1@4" in output) == (1, True)
    # A metric that all attempts have is tested as before.
    assert only(gate(world, "20", "accuracy<0.9")).outcome == "passed"


@pytest.mark.parametrize("align", ["step", "time"])
def test_a_part_before_the_divergence_passes_no_gate(
    laboratory: Laboratory, world: World, bench: Command, align: str
) -> None:
    short = laboratory.attempts(JITTER[:2], experiment=20)
    for run in short:  # The common part ends before the first value that is not finite.
        world.connection.execute("delete from spans where run_id = %s and step > 5", (run,))
        world.connection.execute("update runs set ended_at = started_at + interval '6 s' where run_id = %s", (run,))
    runs = laboratory.attempts(JITTER[:2], experiment=21)
    options = {"baseline": "20", "align": align}
    assert only(gate(world, "21", "loss>5", **options)).outcome == "passed"
    world.connection.execute("update software_metrics set value = null where run_id = %s and step >= 6", (runs[1],))
    verdict = only(gate(world, "21", "loss>5", **options))
    assert (verdict.outcome, verdict.reason.code) == ("failed", "not_finite")
    assert verdict.new.missing == {"21/1/1@2": "not_finite"}
    assert bench("21", "--baseline", "20", "--align", align, "--fail-on", "loss>5")[0] == 1
    # The values of the part itself remain, and a metric that is finite at last is tested.
    assert compare(world.connection, ["21"], align=align).entries[0].software["loss"] is None
    part = compare(world.connection, ["21/1/1", "20/1/1"], align=align).entries[0].software
    assert part["loss"] == pytest.approx(2.6, abs=0.2)
    verdict = only(gate(world, "20", "loss>+3%", baseline="21", align=align))
    assert (verdict.outcome, verdict.old and verdict.old.missing) == ("undecided", {"21/1/1@2": "not_finite"})
    # One that begins after the part, too.
    store_software_metrics(world.connection, runs[0], [SoftwareMetric("late", 19, laboratory.now - 6, math.nan)])
    assert only(gate(world, "21/1/1@1", "late>5", **options)).outcome == "failed"


def test_a_change_needs_all_attempts_of_both_sides(laboratory: Laboratory, world: World) -> None:
    old = laboratory.attempts(JITTER, experiment=20)
    new = laboratory.attempts(JITTER, experiment=21)
    assert only(gate(world, "21", "loss>+3%", baseline="20")).outcome == "passed"
    diverge(laboratory, old[0])
    verdict = only(gate(world, "21", "loss>+3%", baseline="20"))
    assert (verdict.outcome, verdict.reason.code) == ("undecided", "attempts_missing")
    assert "20/1/1@1" in verdict.text
    assert verdict.statistics is None
    diverge(laboratory, new[2])
    verdict = only(gate(world, "21", "loss>+3%", baseline="20"))
    assert (verdict.outcome, verdict.reason.values["attempts"]) == ("failed", ["21/1/1@3"])


@pytest.mark.parametrize("status", ["failed", "timeout", "stopped", "running"])
@pytest.mark.parametrize("side", [20, 21])
def test_attempts_that_did_not_finish_leave_a_gate_undecided(
    laboratory: Laboratory, world: World, status: str, side: int
) -> None:
    """The survivors may be the fast ones."""
    runs = {experiment: laboratory.attempts([9.0, *JITTER], experiment=experiment) for experiment in (20, 21)}
    for experiment, condition in ((20, "step_time>+3%"), (21, "step_time>1min")):
        world.connection.execute("update runs set status = 'finished'")
        world.connection.execute("update runs set status = %s where run_id = %s", (status, runs[side][0]))
        baseline = None if condition.endswith("min") else "20"
        verdict = only(gate(world, str(side if baseline is None else 21), condition, baseline=baseline))
        assert (verdict.outcome, verdict.reason.code) == ("undecided", "attempts_missing"), experiment
        assert f"{side}/1/1@1 ({status})" in verdict.text
        label = f"{side}/1/1"
        named = [f"{label}@{attempt}" for attempt in range(2, 8)]
        selectors = " ".join(named) if side == 21 or baseline is None else "21"
        if side == 21 or baseline is None:
            assert only(gate(world, selectors, condition, baseline=baseline)).outcome == "passed", "named attempts"
    world.connection.execute("update runs set status = 'failed'")
    with pytest.raises(NoData, match="none of the selected runs has finished"):
        gate(world, "21", "step_time>+3%", baseline="20")


def test_an_attempt_without_the_metric_is_named(laboratory: Laboratory, world: World) -> None:
    runs = laboratory.attempts(JITTER[:3], experiment=20)
    world.connection.execute("delete from software_metrics where run_id = %s and key = 'accuracy'", (runs[1],))
    verdict = only(gate(world, "20", "accuracy<0.9"))
    assert (verdict.outcome, verdict.new.missing) == ("undecided", {"20/1/1@2": "not_measured"})
    assert "20/1/1@2 (not measured)" in verdict.text


def test_negative_values_have_bounds(laboratory: Laboratory, world: World) -> None:
    runs = laboratory.attempts(JITTER[:2], experiment=20)
    for run in runs:
        store_software_metrics(world.connection, run, [SoftwareMetric("elbo", 30, laboratory.now, -3.0)])
    assert only(gate(world, "20", "elbo<-2.5")).outcome == "failed"
    assert only(gate(world, "20", "elbo<-3.5")).outcome == "passed"
    with pytest.raises(BadRequest, match="for a change write 'accuracy<-1%'"):
        gate(world, "20", "accuracy<-1")


def test_notes_name_values_that_are_not_comparable(laboratory: Laboratory, world: World) -> None:
    laboratory.attempts(JITTER[:2], experiment=20)
    runs = laboratory.attempts(JITTER[:2], experiment=21)
    store_software_metrics(world.connection, runs[0], [SoftwareMetric("accuracy", 30, laboratory.now - 6, 0.0)])
    verdict = only(gate(world, "21", "accuracy<-3%", baseline="20"))
    assert (verdict.outcome, verdict.reason) == ("undecided", Reason("not_positive", {"metric": "accuracy"}))


def test_requests_that_are_wrong(laboratory: Laboratory, bench: Command) -> None:
    for experiment in (20, 21):
        laboratory.attempts(JITTER[:2], experiment=experiment)
    laboratory.attempts(JITTER[:2], experiment=20, position=2, command="wide.py")
    laboratory.attempts(JITTER[:1], experiment=22, position=3, command="other.py")
    for words, message in (
        ("21 --baseline 20 --fail-on step_tim>+3%", "'step_tim' (did you mean 'step_time'?)"),
        ("21 --baseline 20 --fail-on acuracy<-1%", "(did you mean 'accuracy'?)"),
        ("21 --baseline 20 --fail-on step_time>3%", "for a change write 'step_time>+3%'"),
        ("21 --baseline 20 --fail-on step_time", "is not a condition"),
        ("21 --fail-on step_time>+3%", "needs --baseline"),
        ("21 --baseline 21 --fail-on step_time>+3%", "--baseline 21 names"),
        ("21 --baseline 20 --fail-on step_time>+3% --alpha 5", "rate of false alarms"),
        ("21 --baseline 20 --fail-on step_time>+3% --by row", "leave out --by"),
        ("21 --alpha 0.01", "--alpha goes with --fail-on"),
        ("22 --baseline 20 --fail-on step_time>+3%", "of 22/1/3"),
        ("23 --baseline 20 --fail-on step_time>+3%", "23 names no run"),
    ):
        status, _, output = bench(*words.split())
        assert (status, message in output) == (2, True), output
