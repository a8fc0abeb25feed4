"""Wording of notices: one case for each code of the catalog."""

from __future__ import annotations

from typing import Any

import pytest

from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.sql.queries.notices import Fact, Reason, notices
from tests.support.world import World

RUNS = ["20/1/1", "20/2/1"]
MANY = [f"20/{n}/1" for n in range(1, 9)]
PAIR = {"set": "a + b", "workloads": ["20/1", "20/2"]}
HOW = {"exporters": ["host", "nvml", "process"], "interval_seconds": [1.004, 5.0], "coverage": [0.4, 0.99]}
CASES: list[tuple[str, list[str], dict[str, Any], str]] = [
    (
        "no_runs", [], {},
        "There is no run yet: `bench demo` makes some; `bench run -- COMMAND` or `bench schedule FILE` starts yours.",
    ),
    ("no_runs_selected", [], {}, "No run is chosen: choose an experiment, a workload and runs above."),
    (
        "replica_behind", [], {"seconds": 42},
        "The replica is 42 s behind: what is running here may have ended since.",
    ),
    (
        "measured", RUNS, {**HOW, "overhead": [0.001, None]},
        "Measured every 1 to 5 s by host, nvml and process, 40% to 99% of the time; the exporters took 0.1% of the host's cores.",
    ),
    (
        "measured_differently", RUNS[:1], {"exporters": ["process"], "interval_seconds": [None], "coverage": [0.9]},
        "20/1/1: measured by process, 90% of the time.",
    ),
    (
        "measuring_costs", RUNS, {"most": 0.0042, "command": "python train.py", "repetitions": 12},
        "20/1/1, 20/2/1: measuring makes a training at most 0.4% slower on this host (95% sure, by 12 repetitions of python train.py).",
    ),
    (
        "part", [], {"phase": "train", "from_seconds": 0.5, "to_seconds": 150.0},
        "Only a part of each run: phase train, from 0.5 s to 00:02:30.",
    ),
    ("outside_part", RUNS, {}, "No such part, and so left out: 20/1/1, 20/2/1."),
    ("not_aligned", RUNS[:1], {"reason": "no_axis", "align": "epoch"}, "20/1/1 is left out: it has no epochs."),
    ("no_axis", RUNS, {"align": "phase:warm up"}, "No phase warm up, and so no curve: 20/1/1, 20/2/1."),
    (
        "runs_left_out", MANY, {"metrics": ["threads"], "total": 48, "drawn": 40},
        "threads: only 40 of 48 runs are drawn. Left out: 20/1/1, 20/2/1, 20/3/1, 20/4/1, 20/5/1, 20/6/1 and 2 more. Choose fewer runs.",
    ),
    (
        "workloads_left_out", [], {"workloads": ["20/3 train"], "total": 3, "drawn": 2},
        "Only 2 of 3 workloads are drawn. Left out: 20/3 train. Choose fewer workloads.",
    ),
    ("bands_left_out", [], {"drawn": 8}, "The ranges of the first 8 workloads are drawn, of the others the means alone."),
    (
        "mean_of_fewer", [], {"workloads": ["20/3", "20/4"]},
        "Some runs of 20/3, 20/4 ended before the others: from then on a mean is over fewer runs.",
    ),
    (
        "devices_left_out", [], {"devices": ["GPU 2", "GPU 3"], "total": 4, "drawn": 2},
        "Only 2 of 4 devices are drawn. Left out: GPU 2, GPU 3. Choose fewer hosts above.",
    ),
    ("gpus_left_out", RUNS[:1], {"total": 48, "drawn": 40}, "Only 40 of 48 GPUs of 20/1/1 are drawn, the first by their ids."),
    ("without_gpu", RUNS, {}, "Left out, since they used no GPU: 20/1/1, 20/2/1."),
    (
        "divided_evenly", RUNS, {},
        "Not their own: the values of shared GPUs, divided evenly among their runs, for 20/1/1, 20/2/1.",
    ),
    ("without_own_values", RUNS, {}, "Drawn without height, since nothing measured their part: 20/1/1, 20/2/1."),
    (
        "range_mismatch", [], {"shown_seconds": 90, "longest_seconds": 3725.4},
        'The charts show 90 s, the longest run lasts 01:02:05: "Fit" shows all of it.',
    ),
    ("outside_range", RUNS[:1], {}, '20/1/1 did not run within the chosen time: "The whole run" above shows it.'),
    (
        "ended_early", RUNS, {"status": "failed", "cause": "exit status 3"},
        "Failed (exit status 3): 20/1/1, 20/2/1. Totals and curves cover the time until then.",
    ),
    (
        "partial_process_coverage", RUNS, {"shares": [0, 0.4]},
        "Partial coverage of the processes in 20/1/1 (0%), 20/2/1 (40%).",
    ),
    (
        "partial_gpu_coverage", RUNS[:1], {"shares": [0.4]},
        "Partial coverage of the GPUs in 20/1/1 (40%).",
    ),
    (
        "missing_metrics", RUNS[:1], {"columns": ["cost_energy", "co2_grams"], "reason": "no_own_energy"},
        "20/1/1: no cost_energy and no co2_grams: it has no measured energy of its own.",
    ),
    ("not_logged", RUNS, {"metrics": ["loss"]}, "loss: not logged in 20/1/1, 20/2/1."),
    (
        "not_finite", RUNS, {"metrics": ["loss"], "steps": [12, 7]},
        "loss: NaN or infinite, first at step 12 of 20/1/1, step 7 of 20/2/1.",
    ),
    ("not_measured", RUNS, {"metrics": ["load", "threads"]}, "load, threads: not measured in 20/1/1, 20/2/1."),
    (
        "scopes_differ", RUNS[:1], {"metrics": ["gpu_power"], "scope": "instance"},
        "gpu_power: values of GPUs or MIG instances that the run had to itself in 20/1/1.",
    ),
    ("wide_scope", RUNS, {"metrics": ["load"], "scope": "host"}, "load: values of the whole host."),
    (
        "sources_differ", RUNS[:1], {"metrics": ["gpu_power"], "sources": ["DCGM_FI_DEV_POWER_USAGE", "bench_gpu_power_watts"]},
        "gpu_power: read from DCGM_FI_DEV_POWER_USAGE and bench_gpu_power_watts in 20/1/1.",
    ),
    (
        "intervals_differ", MANY[:3], {"metrics": ["threads"], "interval_seconds": [5, 1, 5]},
        "threads: read every 1 s in 20/2/1; every 5 s in 20/1/1, 20/3/1.",
    ),
    (
        "partial_coverage", RUNS[:1], {"metrics": ["threads"], "shares": [0.4]},
        "threads: partial coverage in 20/1/1 (40%).",
    ),
    (
        "few_samples", RUNS, {"metrics": ["gpu_utilization"], "samples": [1, 3]},
        "gpu_utilization: a mean of few readings in 20/1/1 (1), 20/2/1 (3).",
    ),
    (
        "utilization_overstates", RUNS[:1], {"metrics": ["gpu_utilization"], "better": "gpu_sm_active"},
        "gpu_utilization: the share of time in which any kernel ran; gpu_sm_active, measured in 20/1/1, is how busy the GPU was.",
    ),
    (
        "throttled", RUNS, {"shares": [0.51, 0.0001]},
        "GPU clocks were throttled for a part of the time in 20/1/1 (51%), 20/2/1 (1%).",
    ),
    (
        "exporter_overhead", RUNS[:1], {"shares": [0.05]},
        "The exporters took more than 1% of the host's cores in 20/1/1 (5.0%).",
    ),
    ("shared_resource", RUNS, {}, "20/1/1, 20/2/1 shared the GPU or host with other runs."),
    (
        "other_programs", RUNS, {"other_cores": [1.8, 12], "service_cores": [0.3, None], "cores": [2, 64], "delays": [0.6, 0.3]},
        ("Other programs used the cores of 20/1/1 (1.8 of 2 cores), 20/2/1 (12.0 of 64 cores): stop them and repeat the runs; "
        "`bench schedule --quiet-host` waits."),
    ),
    (
        "other_gpu_processes", RUNS, {"shares": [0.4, 1.0]},
        "Other processes used the GPUs of 20/1/1 (40%), 20/2/1 (100%): end them and repeat the runs.",
    ),
    (
        "others_unmeasured", RUNS, {"where": "host", "exporters": ["host", "process"]},
        ("Other programs on the host were not measured beside 20/1/1, 20/2/1, and may have changed the times: "
        "repeat them with host and process in the column Listeners."),
    ),
    (
        "energy_divided", RUNS, {},
        "The GPU energy of 20/1/1, 20/2/1 is divided evenly: the driver does not report their shares, as under MPS.",
    ),
    (
        "idle_power_unknown", RUNS, {},
        "The energy of 20/1/1, 20/2/1 is too small: its GPU or host was never seen idle. Leave it idle for a minute before the run.",
    ),
    ("simulated_gpu", RUNS, {}, "* 20/1/1, 20/2/1 ran on simulated GPUs: their GPU values are not real."),
    (
        "profiled", RUNS[:1], {"profilers": ["ncu", "torch"]},
        "◆ 20/1/1 ran under a profiler (ncu and torch), which slows a run down.",
    ),
    (
        "watch_failed", RUNS[:1], {"problems": ["out of memory", "the disk is full"]},
        "The training of 20/1/1 was not watched to its end: out of memory; the disk is full.",
    ),
    (
        "watch_gaps", RUNS[:1], {"gaps": ["no losses: backward is not called"]},
        "Not recorded of the training of 20/1/1: no losses: backward is not called.",
    ),
    (
        "neighbours_changed", RUNS[:1],
        {"changes": [{"at": 30, "run": "20/1/2", "what": "ended", "status": "finished"}, *[{"at": 40.06, "run": "20/1/3", "what": "began"}] * 4]},
        "20/1/1: neighbours changed after 30.0 s (20/1/2 ended, finished)" + ", 40.1 s (20/1/3 began)" * 3 + " and 1 more.",
    ),
    ("more_neighbours_changed", RUNS, {}, "The neighbours of 2 more runs changed: 20/1/1, 20/2/1; --json has when."),
    ("never_alone", RUNS, {**PAIR, "configurations": ["a"]}, "Unknown cost of a + b (20/1, 20/2) for a, which never ran alone."),
    (
        "other_work", RUNS[:1], {**PAIR, "configuration": "a", "work": "steps", "beside": 151.5, "alone": 293.0},
        "A made 152 steps in a + b (20/1, 20/2), and 293 alone (20/1/1), so its whole runs are not compared; --metric step_time compares each.",
    ),
    (
        "not_paced", RUNS, {**PAIR, "configuration": "a", "paced_by": "steps"},
        "No steps are known of a in a + b (20/1, 20/2), or none alone.",
    ),
    (
        "alone_on_part", RUNS, {**PAIR, "configuration": "a", "collocation": "3g.20gb"},
        "In a + b (20/1, 20/2): a ran alone on 3g.20gb only, not on the whole GPU.",
    ),
    (
        "faster_than_alone", ["20/1/1"], {**PAIR, "configuration": "a", "ratio": 0.552},
        "A took 0.55x as long in a + b (20/1, 20/2) as alone, which sharing cannot explain: something slowed the runs alone. Repeat them.",
    ),
    ("one_repetition", [], PAIR, "No interval for a + b (20/1, 20/2), which has one repetition."),
    (
        "one_repetition_alone", [], {**PAIR, "configurations": ["a", "b"]},
        "No interval for a + b (20/1, 20/2): one repetition alone of a, b.",
    ),
    (
        "diluted", [], {"members": [{"configuration": "a", "set": "a + b", "share": 0.571}]},
        "Too small, since over the whole run, while the others ran for a part of it: a in a + b (57%). For runs that track steps only that part counts.",
    ),
    (
        "not_compared", RUNS, {"reasons": [{"reason": "run_running", "run": run} for run in RUNS]},
        "Left out: 20/1/1, 20/2/1 (20/1/1 is running; 20/2/1 is running).",
    ),
    ("running", RUNS, {}, "Still running, with values as of now: 20/1/1, 20/2/1."),
    ("not_started", RUNS, {}, "Not started: 20/1/1, 20/2/1."),
]  # fmt: skip
# Further forms of a notice.
FORMS: list[tuple[str, list[str], dict[str, Any], str]] = [
    (
        "intervals_differ", MANY, {"metrics": ["threads"], "interval_seconds": [*range(8, 0, -1)]},
        "threads: read " + "; ".join(f"every {n} s in 20/{9 - n}/1" for n in range(1, 7)) + "; 2 more intervals.",
    ),
    (
        "measured_differently", RUNS[:1], {"exporters": ["host", "nvml"], "intervals": {"host": 10, "nvml": 0.1}, "coverage": [None]},
        "20/1/1: measured by host every 10 s and nvml every 0.1 s.",
    ),
    ("measured", RUNS, {"exporters": [], "interval_seconds": [None, None], "coverage": [None, None]}, "Measured by no exporter."),
    (
        "measuring_costs", RUNS[:1], {"most": 0.0, "command": "", "repetitions": 4},
        "20/1/1: measuring makes a training at most 0.0% slower on this host (95% sure, by 4 repetitions of another user's training).",
    ),
    (
        "other_programs", RUNS, {"other_cores": [0.1, 12], "service_cores": [1.2, 8], "cores": [2, 64], "delays": [0.6, 0.3]},
        ("Other programs used the cores of 20/1/1 (services of hypergauge used 1.2 of 2 cores), "
        "20/2/1 (other programs used 12.0 of 64 cores, services of hypergauge 8.0): stop them and repeat the runs; "
        "`bench schedule --quiet-host` waits."),
    ),
    (
        "others_unmeasured", RUNS[:1], {"where": "gpu", "exporters": []},
        "Other processes on the GPUs were not measured beside 20/1/1, and may have changed the times.",
    ),
]  # fmt: skip
REASONS: list[tuple[str, dict[str, Any], str]] = [
    ("no_axis", {"align": "phase:warm up"}, "it has no phase warm up"),
    ("raw_samples_deleted", {}, "its raw samples are deleted"),
    ("outside_part", {}, "it has no such part"),
    ("gpus_shared_in_part", {"other": "20/1/2"}, "it shares only some of its GPUs with 20/1/2"),
    ("value_not_measured", {}, "it was not measured"),
    ("value_not_logged", {}, "it was not logged"),
    ("value_not_finite", {}, "its last value was NaN or infinite"),
    ("no_own_energy", {}, "it has no measured energy of its own"),
    ("no_energy_curve", {}, "its energy over time is unknown"),
    ("gpus_simulated", {}, "its GPUs are simulated, which --simulated counts"),
    (
        "no_price", {"file": "tariff.toml", "kind": "gpu", "name": "NVIDIA L4", "priced": ["A100", "H100"]},
        "tariff.toml has no price for the GPU NVIDIA L4, but for A100, H100",
    ),
    (
        "no_peak_flops", {"model": "NVIDIA X1"},
        "the peak FLOPS of NVIDIA X1 are unknown; `peak_flops` in bench.toml gives them",
    ),
    ("target_missed", {"target": "accuracy>=0.95", "best": 0.912345}, "it never reached accuracy>=0.95 (0.9123 at best)"),
    ("metric_not_logged", {"key": "accuracy"}, "it has not logged accuracy"),
    (
        "not_simultaneous", {"passes": [RUNS, ["20/1/2"]]},
        "its rows' latest attempts did not run at the same time, but 20/1/1, 20/2/1, then 20/1/2",
    ),
    ("run_running", {"run": "20/1/1"}, "20/1/1 is running"),
    (
        "run_ended_early", {"run": "20/1/1", "status": "timeout", "seconds": 2},
        "20/1/1 ran into its time limit after 2.0 s",
    ),
    ("host_used_by_others", {"run": "20/1/1", "others": ["21/1/1"]}, "21/1/1 ran on the host of 20/1/1, too"),
    ("gpu_used_by_others", {"run": "20/1/1", "others": ["21/1/1", "21/1/2"]}, "21/1/1, 21/1/2 used the GPU of 20/1/1, too"),
    ("other_programs", {"run": "20/1/1", "used": 1.8, "services": 0.2, "cores": 2, "gpu_share": 0.0}, "other programs disturbed 20/1/1: 1.8 of 2 cores"),
    ("never_overlapped", {}, "the runs never overlapped all at once"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "runs", "values", "text"), [*CASES, *FORMS], ids=[code for code, *_ in CASES + FORMS])
def test_wording(world: World, code: str, runs: list[str], values: dict[str, Any], text: str) -> None:
    [notice] = notices(world.connection, [Fact(code, runs, values)])
    assert (notice.code, notice.runs, notice.values, notice.text) == (code, runs, values, text)


@pytest.mark.parametrize(("code", "values", "text"), REASONS, ids=[code for code, *_ in REASONS])
def test_wording_of_a_reason(world: World, code: str, values: dict[str, Any], text: str) -> None:
    [notice] = notices(world.connection, [Fact("not_aligned", RUNS[:1], Reason(code, values).as_dict())])
    assert notice.text == f"20/1/1 is left out: {text}."


def test_a_target_that_was_never_tried_has_no_best_value(world: World) -> None:
    reason = Reason("target_missed", {"target": "loss<=0.3", "best": None})
    [notice] = notices(world.connection, [Fact("not_aligned", RUNS[:1], reason.as_dict())])
    assert notice.text == "20/1/1 is left out: it never reached loss<=0.3."


@pytest.mark.parametrize("seconds", [0, 0.031, 0.94, 0.96, 2, 59.94, 60, 187.4, 3599.4, 7387, 90_000])
def test_a_run_that_ended_early_lasted_as_long_as_in_tables(world: World, seconds: float) -> None:
    reason = Reason("run_ended_early", {"run": "20/1/2", "status": "failed", "seconds": seconds})
    [notice] = notices(world.connection, [Fact("not_aligned", RUNS[:1], reason.as_dict())])
    assert notice.text == f"20/1/1 is left out: 20/1/2 failed after {duration(seconds)}."


@pytest.mark.parametrize(
    ("used", "services", "text"),
    [
        (0.1, 1.2, "other programs disturbed 20/1/1: services of hypergauge used 1.2 of 2 cores"),
        (0.5, 0.6, "other programs disturbed 20/1/1: other programs used 0.5 of 2 cores, services of hypergauge 0.6"),
        (None, None, "other programs on the host were not measured beside 20/1/1, and may have disturbed it"),
    ],
)
def test_what_disturbed_a_run_is_named(world: World, used: float | None, services: float | None, text: str) -> None:
    values = {"run": "20/1/1", "used": used, "services": services, "cores": 2, "gpu_share": None}
    reason = Reason("other_programs", values)
    [notice] = notices(world.connection, [Fact("not_compared", RUNS[:1], {"reasons": [reason.as_dict()]})])
    assert notice.text == f"Left out: {text}."


def test_a_failure_without_a_cause_has_its_status(world: World) -> None:
    [notice] = notices(world.connection, [Fact("ended_early", RUNS[:1], {"status": "stopped", "cause": None})])
    assert notice.text == "Stopped: 20/1/1. Totals and curves cover the time until then."


def test_runs_that_never_ran_alone_are_named_at_once_and_a_large_set_is_short(world: World) -> None:
    values = {"set": "a + b + c + d", "workloads": ["20/1"], "configurations": ["a", "b"]}
    [notice] = notices(world.connection, [Fact("never_alone", RUNS, values)])
    assert notice.text == "Unknown cost of a + b and 2 more (20/1) for a, b, which never ran alone."


def test_every_code_has_a_title(world: World) -> None:
    assert world.connection.execute("select code from notice_codes() where notice_title(code) is null").fetchall() == []


def test_every_code_has_a_case_and_a_severity(world: World) -> None:
    codes = world.connection.execute("select code, severity from notice_codes()").fetchall()
    assert [code for code, _ in codes] == [code for code, *_ in CASES]
    assert {severity for _, severity in codes} == {"info", "warning"}


def test_the_catalog_names_the_values_of_every_code(world: World) -> None:
    named = world.connection.execute('select code, "values" from notice_catalog()').fetchall()
    reasons = {reason: set(values) for reason, values, _ in REASONS}
    for (code, names), (_, _, values, _) in zip(named, CASES, strict=True):
        own = values.keys() - reasons.get(values.get("reason", ""), set())
        assert own <= set(names), code


def test_the_catalog_has_every_reason_with_its_values(world: World) -> None:
    named = world.connection.execute('select reason, "values" from reason_catalog()').fetchall()
    assert named == [(reason, list(values)) for reason, values, _ in REASONS]


def test_a_code_that_the_catalog_lacks_is_refused(world: World) -> None:
    with pytest.raises(KeyError, match="invented"):
        notices(world.connection, [Fact("running", RUNS), Fact("invented")])


def test_a_reader_may_query_texts(world: World) -> None:
    connection = world.connection
    with connection.transaction(force_rollback=True):
        connection.execute("set local role bench_reader_own")
        assert connection.execute("select notice_text('running', '{20/1/1}')").fetchone() is not None
