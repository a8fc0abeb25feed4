"""Advice for and against collocation, and sets without a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hypergauge.insight.sharing.collocation import advice, facts, left_out, verdict
from hypergauge.insight.sharing.concurrent_runs import concurrent_runs
from hypergauge.insight.sharing.interference import Interference
from hypergauge.insight.sharing.progress import Progress
from hypergauge.insight.sharing.slowdowns import Measured, sets_of
from hypergauge.sql.queries.notices import Fact, Reason
from hypergauge.sql.runs.selection import RunInfo

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def run(workload: int, position: int, command: str, start: float, duration: float, **fields: Any) -> RunInfo:
    attempt = fields.get("attempt", 1)
    made = RunInfo(
        run_id=f"{workload:08}{position:016}{attempt:08}", mlflow_run_id=None, experiment_id=1, workload=workload,
        position=position, attempt=1, name=command, owner="me", status="finished",
        started_at=MIDNIGHT + timedelta(seconds=start), ended_at=MIDNIGHT + timedelta(seconds=start + duration),
        duration=duration, exit_code=0, reason=None, command=command, environment="-", collocation="-", devices="0",
        params={}, host="node1", keep=False, simulated=False, full_label=f"1/{workload}/{position}",
    )  # fmt: skip
    return dataclasses.replace(made, **fields)


def evaluated(
    runs: Sequence[RunInfo], measured: Measured | None = None, metric: str = "duration", *, decided: str | None = None
) -> Interference:
    concurrent, out = concurrent_runs(runs, {})
    sets = sets_of(concurrent, measured or Measured(), paced=metric != "duration")
    return Interference(metric, tuple(dataclasses.replace(each, verdict=decided) for each in sets), out)


ALONE = [run(1, 1, "a", 0, 10), run(2, 1, "b", 20, 10)]


@pytest.mark.parametrize(
    ("together", "decided", "lines"),
    [
        (
            [run(3, 1, "a", 40, 12), run(3, 2, "b", 40, 11.9)],
            "collocate",
            [
                "1/3/1 a: 12.0 s beside others, 10.0 s alone (1/1/1): 20% longer",
                "1/3/2 b: 11.9 s beside others, 10.0 s alone (1/2/1): 19% longer",
                "Workload 1/3 took 12.0 s, its runs one after the other 20.0 s. Collocation paid: 40% shorter.",
            ],
        ),
        (
            [run(3, 1, "a", 40, 25), run(3, 2, "b", 40, 25)],
            "apart",
            [
                "1/3/1 a: 25.0 s beside others, 10.0 s alone (1/1/1): 150% longer",
                "1/3/2 b: 25.0 s beside others, 10.0 s alone (1/2/1): 150% longer",
                "Workload 1/3 took 25.0 s, its runs one after the other 20.0 s. Collocation did not pay: 25% longer.",
            ],
        ),
        (
            [run(3, 1, "a", 40, 20), run(3, 2, "a", 40, 20)],
            "even",
            [
                "1/3/1, 1/3/2 a: 20.0 s beside others, 10.0 s alone (1/1/1): 100% longer",
                "Workload 1/3 took 20.0 s, its runs one after the other 20.0 s. It was even: no difference.",
            ],
        ),
        ([run(3, 1, "a", 40, 12), run(3, 2, "c", 40, 11)], None, []),
        ([run(3, 1, "a", 40, 12), run(3, 2, "b", 40, 1, status="failed")], None, []),
        ([run(3, 1, "a", 40, 12, devices="1"), run(3, 2, "b", 40, 12, devices="1")], None, []),
    ],
    ids=["it paid", "it did not", "even", "never alone", "failed", "alone on another device"],
)
def test_sentences_tell_the_times_and_the_verdict(
    together: list[RunInfo], decided: str | None, lines: list[str]
) -> None:
    assert list(verdict(evaluated([*ALONE, *together], decided=decided))) == lines


def test_three_are_a_set_of_their_own() -> None:
    found = evaluated(
        [*ALONE, run(5, 1, "c", 500, 20), *(run(3, at, name, 40, 30) for at, name in enumerate("abc", 1)),
         run(4, 1, "b", 80, 15), run(4, 2, "a", 80, 15)],
        decided="collocate",
    )  # fmt: skip
    assert [one.name for one in found.sets] == ["a + b + c", "a + b"]
    triple = found.sets[0]
    assert [(one.name, triple.beside(one), one.slowdown and one.slowdown.ratio.value) for one in triple.members] == [
        ("a", "b + c", 3), ("b", "a + c", 3), ("c", "a + b", 1.5),
    ]  # fmt: skip
    assert triple.makespan is not None
    assert (triple.makespan.together, triple.makespan.one_by_one) == (30, 40)
    assert triple.rates("runs") == (3 / 30, 3 / 40)
    assert advice(found) == "Collocate: a + b + c (-25%); a + b (-25%)."


def early(label: str, status: str, seconds: float) -> dict[str, Any]:
    return {"reason": "run_ended_early", "run": label, "status": status, "seconds": seconds}


def test_a_repetition_in_which_one_failed_is_left_out_and_named() -> None:
    found = evaluated([
        *ALONE, run(1, 1, "a", 500, 2, attempt=2, status="timeout"),
        run(3, 1, "a", 40, 12), run(3, 2, "b", 40, 12),
        run(3, 1, "a", 80, 30, attempt=2, full_label="1/3/1@2"),
        run(3, 2, "b", 80, 3, attempt=2, status="failed", full_label="1/3/2@2"),
        run(3, 1, "a", 120, 14, attempt=3), run(3, 2, "b", 120, 14, attempt=3),
    ])  # fmt: skip
    assert [one.repetitions for one in found.sets] == [2]
    refused = list(map(left_out, found.left_out))
    assert refused == [
        Fact("not_compared", ("1/1/1",), {"reasons": [early("1/1/1", "timeout", 2)]}),
        Fact("not_compared", ("1/3/1@2", "1/3/2@2"), {"reasons": [early("1/3/2@2", "failed", 3)]}),
    ]
    assert list(facts(found))[-2:] == refused


def test_running_runs_and_those_with_other_processes_on_their_gpu_are_left_out() -> None:
    going = run(2, 1, "b", 20, 10, status="running", ended_at=None)
    _, out = concurrent_runs([ALONE[0], going], {ALONE[0].run_id: ["7/1/1"]})
    assert [one.reasons for one in out] == [
        (Reason("gpu_used_by_others", {"run": "1/1/1", "others": ["7/1/1"]}),), (Reason("run_running", {"run": "1/2/1"}),),
    ]  # fmt: skip


def test_what_was_retried_beside_one_that_went_on_is_no_repetition() -> None:
    found = evaluated(
        [
            *ALONE,
            run(3, 1, "a", 40, 30),
            run(3, 2, "b", 40, 5, status="failed", full_label="1/3/2@1"),
            run(3, 2, "b", 46, 12, attempt=2),
        ]
    )
    assert found.sets == ()
    assert [one.runs for one in found.left_out] == [("1/3/1", "1/3/2@1", "1/3/2")]


def test_profiled_and_simulated_runs_are_compared_with_their_like_alone() -> None:
    pair = [run(3, 1, "a", 40, 12, profilers="nsys"), run(3, 2, "b", 40, 12)]
    [one] = evaluated([*ALONE, *pair]).sets
    assert [(member.name, member.profiled, member.slowdown is None) for member in one.members] == [
        ("b", False, False), ("a (1/3/1)", True, True),
    ]  # fmt: skip
    profiled = run(4, 1, "a", 90, 11, profilers="nsys")
    [one] = evaluated([*ALONE, *pair, profiled]).sets
    assert one.members[1].slowdown is not None
    assert one.members[1].slowdown.alone.runs == ("1/4/1",)


def test_on_an_instance_alone_is_the_whole_gpu_and_the_instance_as_well() -> None:
    half = run(4, 1, "a", 90, 16, collocation="3g.20gb")
    pair = [run(3, 1, "a", 40, 18, collocation="3g.20gb"), run(3, 2, "b", 40, 18, collocation="4g.20gb")]
    [one] = evaluated([*ALONE, half, *pair]).sets
    assert one.sharing == "3g.20gb+4g.20gb"
    a, b = one.members
    assert a.slowdown is not None
    assert a.on_instance is not None
    assert (a.slowdown.alone.collocation, a.slowdown.ratio.value) == ("-", 1.8)
    assert (a.on_instance.alone.collocation, a.on_instance.ratio.value) == ("3g.20gb", 18 / 16)
    assert b.on_instance is None
    found = evaluated([half, ALONE[1], *pair])
    assert [one.values for one in facts(found) if one.code == "alone_on_part"] == [
        {"configuration": "a", "set": "a 3g.20gb + b 4g.20gb", "workloads": ("1/3",), "collocation": "3g.20gb"}
    ]


def test_what_shares_no_device_shares_the_host() -> None:
    ways = [
        ("naive", {"devices": "0"}, {"devices": "0+1"}), ("host", {"devices": "0"}, {"devices": "1"}),
        ("host", {"devices": ""}, {"devices": ""}), ("MPS", {"collocation": "MPS"}, {"collocation": "MPS"}),
        ("MPS:40+naive", {"collocation": "MPS:40"}, {}),
    ]  # fmt: skip
    for sharing, one, other in ways:
        [found] = evaluated([run(3, 1, "a", 40, 12, **one), run(3, 2, "b", 40, 12, **other)]).sets
        assert found.sharing == sharing


# --- runs that last longer than their neighbours ----------------------------------------------------------------------

# Alone, `a` takes 1 s per step for 10 steps. Beside `b` it takes 2 s for each of the first 4 steps, until `b` ends.
UNEVEN = [*ALONE, run(3, 1, "a", 40, 14), run(3, 2, "b", 40, 8)]
STEPS = {
    ALONE[0].run_id: Progress([0, 10], [0, 10], 10),
    UNEVEN[2].run_id: Progress([0, 8, 14], [0, 4, 10], 14),
}


def test_where_steps_are_known_the_slowdown_is_over_the_time_together() -> None:
    found = evaluated(UNEVEN, Measured(progress=STEPS), decided="collocate")
    a, b = found.sets[0].members
    assert a.slowdown is not None
    assert b.slowdown is not None
    assert (a.over, a.slowdown.seconds, a.slowdown.alone_seconds, a.slowdown.ratio.value) == ("together", 8, 4, 2)
    assert (b.over, b.together, b.slowdown.ratio.value) == ("whole", 1, 0.8)
    assert "1/3/1 a: 8.0 s beside others, 4.0 s alone for as much (1/1/1): 100% longer" in list(verdict(found))


def test_steps_are_read_of_those_alone_on_an_instance_as_well() -> None:
    runs = [dataclasses.replace(one, collocation="3g.20gb" if one in UNEVEN[2:] else "-") for one in UNEVEN]
    on_instance = run(4, 1, "a", 90, 12, collocation="3g.20gb")
    a, _ = evaluated([*runs, on_instance], Measured(progress=STEPS)).sets[0].members
    assert (a.over, a.diluted, a.on_instance is not None) == ("whole", True, True)
    known = {**STEPS, on_instance.run_id: Progress([0, 12], [0, 10], 12)}
    a, _ = evaluated([*runs, on_instance], Measured(progress=known)).sets[0].members
    assert a.on_instance is not None
    assert a.over == "together"
    assert a.on_instance.ratio.value == pytest.approx(8 / 4.8)


def test_diluted_values_are_marked() -> None:
    found = evaluated(UNEVEN)
    a = found.sets[0].members[0]
    assert a.slowdown is not None
    assert (a.over, a.diluted, a.slowdown.ratio.value) == ("whole", True, 1.4)
    [diluted] = [one.values["members"] for one in facts(found) if one.code == "diluted"]
    assert diluted == [{"configuration": "a", "set": "a + b", "share": pytest.approx(0.57, abs=0.01)}]


def test_the_time_of_a_step_is_that_while_all_were_there() -> None:
    found = evaluated(UNEVEN, Measured(progress=STEPS), "step_time")
    a, b = found.sets[0].members
    assert a.slowdown is not None
    assert (a.slowdown.seconds, a.slowdown.alone_seconds) == (2, 1)
    assert b.slowdown is None
    assert [one.values["configuration"] for one in facts(found) if one.code == "not_paced"] == ["b"]


# --- amounts ----------------------------------------------------------------------------------------------------------


def test_energy_is_that_of_the_whole_gpus_once_and_of_work_what_all_count() -> None:
    energy = {one.run_id: watts * (one.duration or 0) for one, watts in zip(UNEVEN, (200, 300, 350, 400), strict=True)}
    counts = {one.run_id: {"epochs": 4} for one in UNEVEN}
    [one] = evaluated(UNEVEN, Measured(energy=energy, counts=counts)).sets
    assert one.energy is not None
    assert (one.energy.together, one.energy.one_by_one) == (350 * 14, 200 * 10 + 300 * 10)
    assert one.work == {"runs": 2, "epochs": 8}
    assert one.rates("epochs") == (8 / 14, 8 / 20)
    [one] = evaluated(UNEVEN, Measured(energy=dict(list(energy.items())[1:]))).sets
    assert one.energy is None
    assert evaluated(ALONE).sets == ()


def test_of_the_same_twice_the_solo_runs_count_twice_and_are_not_independent() -> None:
    solos = [run(1, 1, "a", 100 * at, took, attempt=at) for at, took in enumerate((10, 11, 12), 1)]
    pairs = [run(3, at, "a", 1000, 20) for at in (1, 2)] + [run(3, at, "a", 1100, 22, attempt=2) for at in (1, 2)]
    [one] = evaluated([*solos, *pairs]).sets
    assert one.makespan is not None
    assert (one.repetitions, one.members[0].count, one.makespan.one_by_one) == (2, 2, 22)
    assert one.members[0].slowdown is not None
    own, whole = one.members[0].slowdown.ratio, one.makespan.ratio
    assert own.low is not None
    assert whole.low is not None
    assert whole.value / whole.low == pytest.approx(own.value / own.low)
    assert advice(evaluated([*solos, *pairs], decided="unsure")) == "Undecided: a + a (-5%)."
