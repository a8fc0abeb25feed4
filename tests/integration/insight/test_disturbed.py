"""Verdicts on collocation where other programs use the host, in each flavour: the command, SQL and notices agree."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from hypergauge.insight.sharing.collocation import advice, facts, interference, verdict
from hypergauge.insight.sharing.interference import Interference
from hypergauge.sql.queries.contention import decisions
from hypergauge.sql.queries.notices import chart_notices, notices
from tests.support.contention import gpu_processes, gpu_run, host, process
from tests.support.data.trained import steps
from tests.support.world import World, one

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"
QUIET = {"busy": 1.1, "idle": 0.9, "pressure": 0.1}
QUIET_PAIR = {"busy": 2.0, "idle": 0.0, "pressure": 0.6}
FULL = {"busy": 2.0, "idle": 0.0, "pressure": 1.0}
LARGE = {"busy": 2.0, "idle": 30.0, "pressure": 0.4}


class Laboratory:
    """Runs of ``a`` and ``b``, alone and beside each other, on a host with two cores."""

    def __init__(self, world: World, gpu: str | None) -> None:
        self.world, self.gpu, self.runs = world, gpu, dict[tuple[int, str], str]()
        self.clock, self.attempt, self.share = START, 1, 0.0
        self.measured = {"host", "process", "gpu"}

    def workload(self, workload: int, seconds: dict[str, int], cores: float, **host_of: Any) -> None:
        """Run configurations for their seconds at this many cores each, beside what the host does."""
        longest = max(seconds.values())
        for position, (name, lasted) in enumerate(seconds.items(), 1):
            run = self.world.run(
                self.clock, self.clock + lasted, workload=workload, position=position, attempt=self.attempt, gpu=self.gpu,
                name=name, command=f"{name}.py",
            )  # fmt: skip
            if "process" in self.measured:
                process(self.world, run, self.clock, cores, seconds=lasted)
            self.runs[workload, name] = run
        if "host" in self.measured:
            host(self.world, self.clock, seconds=longest, **host_of)
        if "gpu" in self.measured and self.gpu:
            busy = self.share > 0
            gpu_processes(
                self.world, self.clock, self.gpu, processes=busy, memory=3e9 * busy, share=self.share, seconds=longest
            )
        self.clock += longest + 30

    def interference(self) -> Interference:
        self.world.connection.execute("select summarise(run_id) from runs")
        return interference(self.world.connection, ["20"])

    def codes(self) -> dict[str, list[str]]:
        shown = notices(self.world.connection, facts(self.interference()))
        return {notice.code: notice.runs for notice in shown}

    def sentence(self) -> str:
        text: str = one(self.world, "select sharing_sentence(array(select run_id from runs))")
        return text


@pytest.fixture
def laboratory(world: World) -> Laboratory:
    return Laboratory(world, GPU)


def quiet(laboratory: Laboratory) -> None:
    laboratory.workload(1, {"a": 10}, 1.0, **QUIET)
    laboratory.workload(2, {"b": 10}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 12, "b": 12}, 0.95, **QUIET_PAIR)


def trained(laboratory: Laboratory, alone: int, beside: int) -> None:
    """Let ``a`` make numbers of steps in twelve seconds alone and beside ``b``."""
    laboratory.workload(1, {"a": 12}, 1.0, **QUIET)
    laboratory.workload(2, {"b": 12}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 12, "b": 12}, 0.95, **QUIET_PAIR)
    for at, (workload, count) in enumerate({1: alone, 3: beside}.items()):
        start = START + 84 * at
        steps(laboratory.world, laboratory.runs[workload, "a"], start, [12 / count] * count, [None] * count)


@pytest.mark.parametrize(("alone", "beside"), [(300, 150), (150, 300), (300, 293)])
def test_no_verdict_on_whole_runs_that_did_other_work_alone(laboratory: Laboratory, alone: int, beside: int) -> None:
    """A training with a time limit takes as long beside others, and does less."""
    trained(laboratory, alone, beside)
    found = laboratory.interference()
    [each] = found.sets
    assert (each.verdict, each.makespan, [member.slowdown is None for member in each.members]) == (
        None,
        None,
        [True, False],
    )
    assert (advice(found), list(verdict(found))) == (None, [])
    assert "a did other work alone there" in laboratory.sentence()
    assert laboratory.codes()["other_work"] == ["20/1/1"]
    assert "never_alone" not in laboratory.codes()
    costs = one(laboratory.world, "select array_agg(label) from run_costs(array(select run_id from runs)) c join runs using (run_id)"
                " join workloads w using (workload_id) cross join lateral run_label(w, runs) label")  # fmt: skip
    assert costs == ["20/3/2"]
    paced = interference(laboratory.world.connection, ["20"], metric="step_time")
    slow = paced.sets[0].members[0].slowdown
    assert slow is not None
    assert slow.ratio.value == pytest.approx(alone / beside, rel=0.01)
    assert "other_work" not in [fact.code for fact in facts(paced)]


def test_a_verdict_where_the_work_differs_by_chance(laboratory: Laboratory) -> None:
    trained(laboratory, 300, 297)
    found = laboratory.interference()
    assert advice(found) == "Collocate: a + b (-50%)."
    assert "saved 50% of the time" in laboratory.sentence()
    assert "other_work" not in laboratory.codes()


def test_on_a_quiet_host_there_is_a_verdict(laboratory: Laboratory) -> None:
    quiet(laboratory)
    found = laboratory.interference()
    assert [one.verdict for one in found.sets] == ["collocate"]
    assert advice(found) == "Collocate: a + b (-40%)."
    assert "saved 40% of the time" in laboratory.sentence()
    assert not {"other_programs", "others_unmeasured"} & laboratory.codes().keys()


@pytest.mark.parametrize(
    ("measured", "where", "doubt"),
    [
        ({"process", "gpu"}, ["host"], "other programs on the host were not measured"),
        ({"gpu"}, ["host"], "other programs on the host were not measured"),
        ({"host", "process"}, ["gpu"], "other processes on the GPUs were not measured"),
        (set(), ["gpu", "host"], "other programs on the host and its GPUs were not measured"),
    ],
)
def test_a_verdict_names_what_was_not_measured_and_how_to_measure_it(
    laboratory: Laboratory, measured: set[str], where: list[str], doubt: str
) -> None:
    laboratory.measured = measured
    quiet(laboratory)
    found = laboratory.interference()
    assert [one.verdict for one in found.sets] == ["collocate"]
    assert advice(found) == f"Collocate: a + b (-40%; {doubt})."
    [*_, line] = verdict(found)
    assert line.endswith(f"Collocation paid: 40% shorter; {doubt}.")
    assert f"; {doubt}" in laboratory.sentence()
    assert list(found.as_dict()["sets"][0]["disturbance"]["unmeasured"]) == where
    shown = [one for one in notices(laboratory.world.connection, facts(found)) if one.code == "others_unmeasured"]
    assert {one.values["where"]: one.values["exporters"] for one in shown} == {
        each: {"host": ["host", "process"], "gpu": ["nvml"]}[each] for each in where
    }
    assert all(one.runs == ["20/1/1", "20/2/1", "20/3/1", "20/3/2"] for one in shown)


def test_runs_that_an_earlier_release_summarized_count_as_unmeasured(laboratory: Laboratory) -> None:
    quiet(laboratory)
    laboratory.interference()
    laboratory.world.connection.execute("delete from stored_contention")
    found = interference(laboratory.world.connection, ["20"])
    doubt = "other programs on the host and its GPUs were not measured"
    assert advice(found) == f"Collocate: a + b (-40%; {doubt})."
    assert f"; {doubt}" in laboratory.sentence()


@pytest.mark.parametrize("unmeasured", [1, 3])
def test_one_unmeasured_side_is_enough_for_a_doubt(laboratory: Laboratory, unmeasured: int) -> None:
    for workload, seconds, use in ((1, {"a": 10}, QUIET), (2, {"b": 10}, QUIET), (3, {"a": 12, "b": 12}, QUIET_PAIR)):
        laboratory.measured = {"gpu"} if workload == unmeasured else {"host", "process", "gpu"}
        laboratory.workload(workload, seconds, 0.95, **use)
    found = laboratory.interference()
    assert "other programs on the host were not measured" in str(advice(found))
    assert "other programs on the host were not measured" in laboratory.sentence()
    assert laboratory.codes()["others_unmeasured"] == (["20/1/1"] if unmeasured == 1 else ["20/3/1", "20/3/2"])


def test_a_busy_host_of_which_no_process_was_measured_allows_no_verdict(laboratory: Laboratory) -> None:
    laboratory.measured = {"host", "gpu"}
    for workload, seconds in ((1, {"a": 15}), (2, {"b": 15}), (3, {"a": 20, "b": 20})):
        laboratory.workload(workload, seconds, 0.5, **FULL)
    found = laboratory.interference()
    cause = "other programs on the host were not measured, and something may have slowed its runs"
    assert [(one.verdict, one.cause) for one in found.sets] == [("disturbed", cause)]
    assert f"is undecided: {cause}" in laboratory.sentence()
    assert laboratory.codes()["others_unmeasured"] == ["20/1/1", "20/2/1", "20/3/1", "20/3/2"]


def test_free_cores_allow_a_verdict_whoever_used_the_others(laboratory: Laboratory) -> None:
    laboratory.measured = {"host", "gpu"}
    for workload, seconds in ((1, {"a": 10}), (2, {"b": 10}), (3, {"a": 12, "b": 12})):
        laboratory.workload(workload, seconds, 0.5, **LARGE)
    found = laboratory.interference()
    assert (found.sets[0].verdict, advice(found)) == ("collocate", "Collocate: a + b (-40%).")
    assert "others_unmeasured" not in laboratory.codes()


def test_busy_services_disturb_runs_like_other_programs(laboratory: Laboratory) -> None:
    for workload, seconds in ((1, {"a": 15}), (2, {"b": 15}), (3, {"a": 20, "b": 20})):
        laboratory.workload(workload, seconds, 0.7 / len(seconds), **FULL, services=1.2)
    found = laboratory.interference()
    assert [one.verdict for one in found.sets] == ["disturbed"]
    assert advice(found) == "Undecided: a + b (services of hypergauge used 1.2 of 2 cores)."
    assert "undecided: services of hypergauge used 1.2 of 2 cores" in laboratory.sentence()
    shown = notices(laboratory.world.connection, facts(found))
    [text] = [notice.text for notice in shown if notice.code == "other_programs"]
    assert "20/1/1 (services of hypergauge used 1.2 of 2 cores)" in text
    laboratory.attempt = 2
    quiet(laboratory)
    shown = notices(laboratory.world.connection, facts(laboratory.interference()))
    assert any("disturbed 20/1/1@1: services of hypergauge used 1.2 of 2 cores" in one.text for one in shown)


def test_light_services_disturb_nothing(laboratory: Laboratory) -> None:
    laboratory.workload(1, {"a": 10}, 1.0, busy=1.3, idle=0.7, pressure=0.2, services=0.25)
    laboratory.workload(2, {"b": 10}, 1.0, busy=1.3, idle=0.7, pressure=0.2, services=0.25)
    laboratory.workload(3, {"a": 12, "b": 12}, 0.85, busy=2.0, idle=0.0, pressure=0.7, services=0.25)
    found = laboratory.interference()
    assert advice(found) == "Collocate: a + b (-40%)."


@pytest.mark.parametrize("share", [0.6, None])
@pytest.mark.parametrize("known", [True, False])
def test_runs_that_did_not_declare_the_gpu_or_are_of_another_database_disturb_runs_on_it(
    laboratory: Laboratory, share: float | None, *, known: bool
) -> None:
    stranger = laboratory.world.run(START, START + 200, experiment=21, name="other") if known else uuid.uuid4().hex
    gpu_run(laboratory.world, stranger, START, GPU, share, seconds=120)
    quiet(laboratory)
    found = laboratory.interference()
    assert [each.verdict for each in found.sets] == ["disturbed"]
    assert advice(found) == "Undecided: a + b (other processes used its GPUs)."
    assert "undecided: other processes used its GPUs" in laboratory.sentence()
    assert laboratory.codes()["other_gpu_processes"] == ["20/1/1", "20/2/1", "20/3/1", "20/3/2"]


def test_repetitions_beside_such_runs_are_left_out_where_others_are_quiet(laboratory: Laboratory) -> None:
    gpu_run(laboratory.world, uuid.uuid4().hex, START, GPU, 0.6, seconds=120)
    quiet(laboratory)
    laboratory.attempt, laboratory.clock = 2, START + 200
    quiet(laboratory)
    found = laboratory.interference()
    assert (found.sets[0].verdict, found.sets[0].repetitions) == ("collocate", 1)
    assert sorted(left.runs for left in found.left_out) == [("20/1/1@1",), ("20/2/1@1",), ("20/3/1@1", "20/3/2@1")]


@pytest.mark.parametrize(
    ("alone", "together"),
    [
        pytest.param(FULL, FULL, id="beside all"),
        pytest.param(FULL, QUIET_PAIR, id="beside the runs alone"),
        pytest.param(QUIET, FULL, id="beside the runs together"),
    ],
)
def test_no_verdict_where_other_programs_used_the_cores(
    laboratory: Laboratory, alone: dict[str, float], together: dict[str, float]
) -> None:
    cores = {id(FULL): 0.6, id(QUIET): 1.0}
    laboratory.workload(1, {"a": 15}, cores[id(alone)], **alone)
    laboratory.workload(2, {"b": 15}, cores[id(alone)], **alone)
    laboratory.workload(3, {"a": 20, "b": 20}, 0.95 if together is QUIET_PAIR else 0.5, **together)
    found = laboratory.interference()
    assert [one.verdict for one in found.sets] == ["disturbed"]
    assert "Undecided: a + b (other programs used" in str(advice(found))
    [*_, line] = verdict(found)
    assert "Undecided: other programs used" in line
    assert "%" not in line
    assert "undecided: other programs used" in laboratory.sentence()
    shown = laboratory.codes()["other_programs"]
    assert ("20/1/1" in shown, "20/3/1" in shown) == (alone is FULL, together is FULL)
    lost = one(laboratory.world, "select sum(lost) from run_costs(array(select run_id from runs))")
    assert lost == 0
    disturbed = laboratory.runs[1, "a"] if alone is FULL else laboratory.runs[3, "a"]
    charted = chart_notices(laboratory.world.connection, [disturbed], [], None)
    [text] = [notice.text for notice in charted if notice.code == "other_programs"]
    assert "of 2 cores" in text


def test_a_run_that_was_faster_beside_others_makes_its_baseline_doubtful(laboratory: Laboratory) -> None:
    laboratory.workload(1, {"a": 40}, 1.0, **QUIET)
    laboratory.workload(2, {"b": 20}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 22, "b": 22}, 0.95, **QUIET_PAIR)
    found = laboratory.interference()
    assert [one.verdict for one in found.sets] == ["disturbed"]
    assert laboratory.codes()["faster_than_alone"] == ["20/1/1"]
    assert "something slowed its runs alone" in str(advice(found))
    assert "something slowed its runs alone" in laboratory.sentence()


def test_processes_on_the_gpu_are_named_as_the_cause(laboratory: Laboratory) -> None:
    laboratory.share = 0.5
    laboratory.workload(1, {"a": 10}, 1.0, **QUIET)
    laboratory.share = 0.0
    laboratory.workload(2, {"b": 10}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 12, "b": 12}, 0.95, **QUIET_PAIR)
    found = laboratory.interference()
    assert [each.verdict for each in found.sets] == ["disturbed"]
    assert advice(found) == "Undecided: a + b (other processes used its GPUs)."
    assert "undecided: other processes used its GPUs" in laboratory.sentence()
    laboratory.attempt = 2
    quiet(laboratory)
    shown = notices(laboratory.world.connection, facts(laboratory.interference()))
    assert any("disturbed 20/1/1@1: they used its GPUs" in notice.text for notice in shown)


def test_repetitions_that_other_programs_disturbed_are_left_out_where_others_are_quiet(laboratory: Laboratory) -> None:
    laboratory.attempt = 1
    laboratory.workload(1, {"a": 15}, 0.6, **FULL)
    laboratory.workload(2, {"b": 10}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 24, "b": 24}, 0.5, **FULL)
    laboratory.attempt = 2
    quiet(laboratory)
    found = laboratory.interference()
    [pair] = found.sets
    assert (pair.verdict, pair.repetitions, advice(found)) == ("collocate", 1, "Collocate: a + b (-40%).")
    assert sorted(left.runs for left in found.left_out) == [("20/1/1@1",), ("20/3/1@1", "20/3/2@1")]
    assert {reason.code for left in found.left_out for reason in left.reasons} == {"other_programs"}
    assert "saved 40% of the time" in laboratory.sentence()


def test_contention_lengthens_cpu_time_and_waiting_for_a_core_does_not(laboratory: Laboratory) -> None:
    laboratory.workload(1, {"a": 10}, 1.0, **QUIET)
    laboratory.workload(2, {"b": 10}, 1.0, **QUIET)
    laboratory.workload(3, {"a": 30, "b": 20}, 0.5, **FULL)
    [one_set] = laboratory.interference().sets
    slowdowns = {member.name: member.slowdown for member in one_set.members}
    ratios = {name: slow and slow.cpu and slow.cpu.value for name, slow in slowdowns.items()}
    # The first and the last sample are cut short.
    assert ratios == {"a": pytest.approx(14.5 / 9), "b": pytest.approx(9.5 / 9)}
    in_sql = laboratory.world.connection.execute(
        "select name, cpu_ratio from run_costs(array(select run_id from runs)) join runs using (run_id)"
    ).fetchall()
    assert dict(in_sql) == pytest.approx(ratios)


@pytest.mark.parametrize("gpu", [GPU, None])
def test_a_run_of_another_experiment_on_the_host_excludes_runs_without_a_gpu(world: World, gpu: str | None) -> None:
    laboratory = Laboratory(world, gpu)
    quiet(laboratory)
    world.run(START, START + 5, experiment=21, gpu="GPU-2" if gpu else None, name="other")
    found = laboratory.interference()
    [pair] = found.sets
    assert (pair.makespan is None) == (gpu is None)
    reasons = [reason.code for left in found.left_out for reason in left.reasons]
    assert reasons == ([] if gpu else ["host_used_by_others"])
    mean = one(world, "select mean is null from sharing_sets(array(select run_id from runs))") if gpu else None
    assert mean is (False if gpu else None)


@pytest.mark.parametrize(
    ("ratio", "delays", "verdict"),
    [
        ((0.6, None, None), (0, 0), "collocate"),
        ((0.6, 0.5, 0.7), (0.19, 0.19), "collocate"),
        ((0.97, None, None), (0, 0.19), "collocate"),
        ((0.97, None, None), (0.05, 0), "disturbed"),
        ((0.99, None, None), (0, 0), "even"),
        ((1.0, 0.99, 1.01), (0.15, 0.15), "even"),
        ((1.0, 0.9, 1.01), (0, 0), "unsure"),
        ((0.9, 0.7, 1.2), (0.15, 0.15), "unsure"),
        ((1.4, 1.2, 1.6), (0.19, 0.15), "apart"),
        ((1.4, 1.2, 1.6), (0, 0.19), "disturbed"),
        ((0.6, None, None), (0.3, 0), "disturbed"),
        ((1.0, 0.99, 1.01), (0, 0.21), "disturbed"),
        ((None, None, None), (0, 0.5), None),
    ],
)
def test_the_verdict_follows_the_interval_and_the_time_that_others_may_have_cost(
    world: World, ratio: tuple[float | None, ...], delays: tuple[float, float], verdict: str | None
) -> None:
    figures = dict(zip(("value", "low", "high", "alone", "beside"), (*ratio, *delays), strict=True))
    [decision] = decisions(world.connection, [figures])
    assert decision.verdict == verdict
    assert (decision.cause is None) == (verdict != "disturbed")


def test_sets_have_their_verdicts_in_their_order(world: World) -> None:
    ratios = [1.5, 0.5, 1.0, None]
    found = decisions(world.connection, [{"value": ratio, "alone": 0, "beside": 0} for ratio in ratios])
    assert [decision.verdict for decision in found] == ["apart", "collocate", "even", None]
    assert decisions(world.connection, []) == []
