"""Workloads as jobs of a real Slurm: measured as on this host, and ended in every way that Slurm has."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.slurm import HEADER, Site, site_in
from tests.support.data.tags import all_tags_are_true
from tests.support.fakes import mps as fake_mps
from tests.support.home import Sheet, environment_of, open_gate
from tests.support.waiting import wait_for

# The first waits for a cluster and a stack, and for limits that Slurm looks at every half minute.
pytestmark = pytest.mark.slow

# Each workload of one file meets another fate.
ROWS = [
    "300,1,left,0,--mem=3G,{scripts}/clocked.py,--seconds 8 --gate measured --megabytes 96",
    "300,1,right,0,--mem=3G,{scripts}/clocked.py,--seconds 8 --gate measured --megabytes 32",
    "300,2,cancelled,,,{scripts}/gate.py,never",
    "300,3,late,,time=00:02:00,{scripts}/gate.py,never",
    "300,4,hog,,--mem=1G,{scripts}/hog.py,",
    "300,4,neighbour,,--mem=1G,{scripts}/clocked.py,--seconds 12",
    "300,5,repeated,,,{scripts}/gate.py,open",
    "300,6,preempted,0+1+2+3,--no-requeue --nodelist=SECOND,{scripts}/gate.py,never",
    "300,7,powerless,,--no-requeue --nodelist=SECOND,{scripts}/gate.py,never",
    "300,8,withdrawn,,--begin=now+1hour,{scripts}/gate.py,never",
]
ENDS = {
    "left": ("finished", None),
    "right": ("finished", None),
    "cancelled": ("stopped", "Slurm: cancelled by user root"),
    "late": ("timeout", "Slurm: the time limit was reached"),
    "hog": ("failed", "Slurm: out of memory"),
    "neighbour": ("finished", None),
    "repeated": ("finished", None),
    "preempted": ("stopped", "Slurm: preempted"),
    "powerless": ("failed", "Slurm: node SECOND failed"),
    "withdrawn": ("stopped", "Slurm: cancelled by user root"),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A Slurm with two nodes and a stack beside it; whatever tests did to them, every sample has its right tag."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, site_in(Path(folder)) as site:
        yield site
        all_tags_are_true(site)


@pytest.fixture(scope="module")
def sheet(site: Site) -> Sheet:
    """The file, when each of its workloads has met its fate; they wait for it side by side."""
    second = site.cluster.nodes[1]
    sheet = site.sheet("fates", HEADER, [row.replace("SECOND", second) for row in ROWS])
    schedule, slurm = site.schedule(sheet, "--max-jobs", "8"), site.cluster.command

    wait_for(lambda: len(_often_measured(site)) == 2, "samples of the GPU of both runs")
    (site.folder / "measured").touch()
    slurm("scancel", site.job(300, 8))
    site.at_the_gate(300, "cancelled")
    slurm("scancel", site.job(300, 2))
    site.at_the_gate(300, "repeated")
    slurm("scontrol", "requeue", site.job(300, 5))

    site.at_the_gate(300, "preempted", "powerless")
    options = ("-p", "urgent", "-w", second, "--gres=gpu:h100:4")
    urgent = slurm("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 600")
    wait_for(lambda: site.state(site.job(300, 6)) == "PREEMPTED", "preemption")
    slurm("scancel", urgent)
    site.cluster.kill_node(second)

    wait_for(lambda: site.state(site.job(300, 5)) == "PENDING", "its place in the queue")
    slurm("scontrol", "update", f"jobid={site.job(300, 5)}", "StartTime=now")
    wait_for(lambda: len(site.named(300, "repeated")) == 2, "the next attempt")
    (site.folder / "open").touch()
    schedule.wait(status=1)
    site.cluster.start_node(second)
    return sheet


@pytest.mark.parametrize("name", ENDS)
def test_slurms_state_becomes_ours(site: Site, sheet: Sheet, name: str) -> None:
    status, reason = ENDS[name]
    *_, run = site.named(300, name)
    assert (run["status"], run["reason"]) == (status, reason and reason.replace("SECOND", site.cluster.nodes[1]))
    assert dict(zip(sheet.column("Name"), sheet.column("Status"), strict=True))[name] == status
    assert dict(zip(sheet.column("Name"), sheet.column("Run"), strict=True))[name] == run["run_id"]


def test_a_job_that_slurm_starts_again_repeats_its_run(site: Site, sheet: Sheet) -> None:
    before, after = site.named(300, "repeated")
    assert (before["status"], before["reason"], before["attempt"]) == ("stopped", "Slurm: requeued", 1)
    assert (after["status"], after["exit_code"], after["attempt"]) == ("finished", 0, 2)


def test_collocated_runs_begin_together_and_are_measured_apart(site: Site, sheet: Sheet) -> None:
    [left], [right] = site.named(300, "left"), site.named(300, "right")
    assert left["started"] == right["started"]
    first = [float(site.artifact(run["mlflow_run_id"]).split()[0]) for run in (left, right)]
    assert first[0] == pytest.approx(first[1], abs=2)
    memory = {run["name"]: summary_of(site, run, "memory_used", "process")["max"] for run in (left, right)}
    assert memory["left"] - memory["right"] == pytest.approx(64 << 20, rel=0.2)
    assert {summary_of(site, run, "gpu_utilization", "device")["n"] > 5 for run in (left, right)} == {True}
    positions = site.query(
        "select distinct p.host, gpu_uuid from placements p where run_id = any(%s)", [left["run_id"], right["run_id"]]
    )
    assert [place["host"] for place in positions] == [socket.gethostname()]


def test_the_runs_of_a_job_share_its_gpus_as_in_their_rows(site: Site) -> None:
    programs = fake_mps.installed_mps(site.folder / "programs")
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    shared = replace(site, variables={**site.variables, **path})
    sheet = site.sheet("shared", f"{HEADER},Collocation", [
        f"308,1,{name},{device},,{{scripts}}/gate.py,share,{collocation}"
        for name, device, collocation in (
            ("plain", 0, "-"), ("whole", 0, "MPS"), ("limited", 0, "MPS:40"), ("half", 1, "3g.20gb"), ("other", 1, "3g.20gb")
        )
    ])  # fmt: skip
    schedule = shared.schedule(sheet)
    names = sheet.column("Name")
    runs = {run["name"]: run for run in site.at_the_gate(308, *names)}
    seen = {name: environment_of(run["run_id"]) for name, run in runs.items()}
    gpus = {name: seen[name]["CUDA_VISIBLE_DEVICES"] for name in names}
    pipes = {name: seen[name].get("CUDA_MPS_PIPE_DIRECTORY") for name in names}

    assert gpus["plain"] == gpus["whole"] == gpus["limited"] != gpus["half"]
    assert pipes["plain"] is None is pipes["half"]
    assert pipes["whole"] is not None
    assert pipes["whole"] == pipes["limited"]
    assert [seen[name].get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") for name in ("whole", "limited")] == [None, "40"]
    positions = {
        name: site.query("select mig_uuid, gpu_uuid from placements where run_id = %s", runs[name]["run_id"])
        for name in names
    }
    for name in ("half", "other"):
        assert [place["mig_uuid"] for place in positions[name]] == [gpus[name]]
    assert len({place["gpu_uuid"] for found in positions.values() for place in found}) == 3

    measured = "select distinct device from run_samples where run_id = %s and scope = 'device' and quantity ~ '^gpu'"
    devices = [
        wait_for(lambda: site.query(measured, runs[name]["run_id"]), f"a sample of {name}'s GPU")  # noqa: B023
        for name in ("plain", "half", "other")
    ]
    assert [len(found) for found in devices] == [1, 1, 1]
    assert len({str(found) for found in devices}) == 3

    (site.folder / "share").touch()
    schedule.wait()
    assert set(sheet.column("Status")) == {"finished"}
    assert not Path(pipes["whole"]).exists()


def test_slurms_accounting_is_shown_with_measurements(site: Site, sheet: Sheet) -> None:
    if not site.cluster.accounting:
        pytest.skip("no accounting: slurmdbd or MariaDB is not installed")
    [run] = site.named(300, "left")
    [account] = site.query("select * from accounting where run_id = %s", run["run_id"])
    assert account["state"] == "COMPLETED"
    assert account["cpu_seconds"] == pytest.approx(
        summary_of(site, run, "cpu_usage", "process")["total"], rel=0.25, abs=1
    )
    # Slurm's has the supervisor in it, and what was before the first sample.
    assert account["max_rss_bytes"] > 0.9 * summary_of(site, run, "memory_used", "process")["max"]


def test_a_killed_scheduler_attaches_again(site: Site) -> None:
    first, second = site.cluster.nodes
    sheet = site.sheet("attached", HEADER, [
        f"301,1,one,0+1+2+3,--nodelist={first},{{scripts}}/gate.py,one",
        f"301,1,other,0,--nodelist={first},{{scripts}}/gate.py,other",
        f"301,2,queued,0+1+2+3,--nodelist={first},{{scripts}}/clocked.py,--seconds 0",
        f"301,3,elsewhere,,--nodelist={second},{{scripts}}/clocked.py,--seconds 4",
    ])  # fmt: skip
    schedule = site.schedule(sheet, "--max-jobs", "2")
    before = site.at_the_gate(301, "one", "other")
    jobs = {1: site.job(301, 1), 2: site.job(301, 2)}
    assert int(jobs[1]) < int(jobs[2])
    wait_for(lambda: site.named(301, "queued")[0]["status"] == "pending", "a place in the queue")
    wait_for(lambda: sheet.column("Status") == ["running", "running", "", ""], "their statuses")
    assert site.jobs(301) == jobs
    schedule.kill()
    open_gate(site.folder / "one", 3)
    wait_for(lambda: site.named(301, "one")[0]["status"] == "failed", "the end that its supervisor records")
    again = site.schedule(sheet, "--max-jobs", "2")
    wait_for(lambda: "attached" in again.output.read_text(), "attaching")
    (site.folder / "other").touch()
    again.wait(status=1)
    assert sheet.column("Status") == ["failed", "finished", "finished", "finished"]
    assert [run["attempt"] for run in site.runs(301)] == [1, 1, 1, 1]
    assert [run["run_id"] for run in site.runs(301)[:2]] == [run["run_id"] for run in before]
    after = site.jobs(301)
    assert {workload: after[workload] for workload in jobs} == jobs
    [elsewhere] = site.named(301, "elsewhere")
    assert site.query("select distinct host from run_samples where run_id = %s", elsewhere["run_id"]) == [
        {"host": second}
    ]


def test_an_interrupt_stops_running_and_pending_jobs(site: Site) -> None:
    sheet = site.sheet("interrupted", HEADER, [
        "302,1,ended,,,{scripts}/gate.py,never",
        "302,1,kept,,,{scripts}/gate.py,never",
        "302,2,queued,,--begin=now+1hour,{scripts}/gate.py,never",
    ])  # fmt: skip
    schedule = site.schedule(sheet, "--max-jobs", "2")
    site.at_the_gate(302, "ended", "kept")
    jobs = [site.job(302, 1), site.job(302, 2)]
    site.bench("stop", "302/1/1")
    assert [run["status"] for run in site.runs(302)] == ["stopped", "running", "pending"]
    schedule.interrupt()
    schedule.wait(status=1)
    assert sheet.column("Status") == ["stopped", "stopped", "stopped"]
    assert [site.state(job) for job in jobs] == ["FAILED", "CANCELLED"]


def test_a_controller_may_be_away(site: Site) -> None:
    before = site.sheet("away", HEADER, ["303,1,run,,,{scripts}/gate.py,away"])
    meanwhile = site.sheet("meanwhile", HEADER, ["304,1,run,,,{scripts}/clocked.py,--seconds 0"])
    schedule = site.schedule(before)
    site.at_the_gate(303, "run")
    site.cluster.stop_controller()
    other = site.schedule(meanwhile)
    for started in (schedule, other):
        wait_for(lambda: "does not answer" in started.output.read_text(), "the message")  # noqa: B023
    (site.folder / "away").touch()
    wait_for(lambda: site.runs(303)[0]["status"] == "finished", "its end, which needs no controller")
    time.sleep(5)
    site.cluster.start_controller()
    for started in (schedule, other):
        started.wait()
        assert started.output.read_text().count("does not answer") == 1


ROW = "305,{workload},run,{devices},{words},{{scripts}}/clocked.py,--seconds 0"
NOT_OURS = {
    ("GPU-12345678-1234-1234-1234-123456789012", ""): "is one GPU of one host",
    ("", "--nodes=2"): "--nodes is reserved",
}
REFUSED = {
    ("", "partition=mian"): "Slurm has no partition 'mian' (did you mean 'main'?)",
    ("", "account=nobody"): "invalid account",
    ("", "constraint=h900"): "invalid feature",
    ("0+1+2+3+4+5", ""): "requested node configuration is not available",
    ("", "time=soon"): "invalid --time",
}


@pytest.mark.parametrize("bad", [NOT_OURS, REFUSED], ids=["by us", "by Slurm"])
def test_refusals_precede_the_first_job(site: Site, bad: dict[tuple[str, str], str]) -> None:
    rows = [ROW.format(workload=n, devices=devices, words=words) for n, (devices, words) in enumerate(bad)]
    sheet = site.sheet("refused", HEADER, [*rows, ROW.format(workload=99, devices="", words="")])
    refused = site.bench("schedule", sheet.path, "--executor", "slurm", "--max-jobs", "9", status=2)
    for line, words in enumerate(bad.values(), start=2):
        assert re.search(rf"{sheet.path}:{line}:.*{re.escape(words)}", refused), refused
    assert site.jobs(305) == {}


@pytest.mark.parametrize(
    ("variable", "value", "printed"),
    [
        ("PATH", "/nowhere", "there is no sbatch on PATH"),
        ("SLURM_CONF", "", "Slurm is not configured on this host"),
        ("BENCH_DSN", "", "BENCH_DSN"),
        ("MLFLOW_TRACKING_URI", "", "MLFLOW_TRACKING_URI"),
    ],
)
def test_a_missing_requirement_of_this_host_is_reported(site: Site, variable: str, value: str, printed: str) -> None:
    sheet = site.sheet("lacking", HEADER, ["306,1,run,,,{scripts}/clocked.py,--seconds 0"])
    variables = {name: text for name, text in {**site.variables, variable: value}.items() if text}
    lacking = replace(site, variables=variables)
    assert printed in lacking.bench("schedule", sheet.path, "--executor", "slurm", status=2)


def test_what_a_failed_node_had_not_written_its_next_job_writes(site: Site, sheet: Sheet) -> None:
    [powerless] = site.named(300, "powerless")
    [folder] = site.path.glob(f"jobs/*/runs/{powerless['run_id']}")
    row = f"307,1,next,,--nodelist={site.cluster.nodes[1]},{{scripts}}/clocked.py,--seconds 0"
    site.schedule(site.sheet("next", HEADER, [row])).wait()
    assert not list(folder.parents[1].glob("spool/*.spool"))


def _often_measured(site: Site) -> list[dict[str, Any]]:
    """Return the collocated runs that have some samples of their GPU."""
    ids = [run["run_id"] for name in ("left", "right") for run in site.named(300, name)]
    return site.query(
        "select run_id from run_samples where run_id = any(%s) and quantity = 'gpu_utilization' and scope = 'device'"
        " group by run_id having count(*) > 5",
        ids,
    )


def summary_of(site: Site, run: dict[str, Any], quantity: str, scope: str) -> dict[str, Any]:
    """Return a run's summary of one quantity."""
    [row] = site.query(
        "select n, mean, max, total from run_summary"
        " where run_id = %s and quantity = %s and scope = %s and metric is null",
        run["run_id"], quantity, scope,
    )  # fmt: skip
    return row
