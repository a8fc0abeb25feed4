"""Workloads as jobs of a real Slurm: measured as on this host, and ended by Slurm in every way that it has."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.e2e.home import Sheet, wait_for
from tests.e2e.slurm import HEADER, Site

pytestmark = pytest.mark.timeout(300)

# Each workload of one file meets another fate.
ROWS = [
    "300,1,left,0,--mem=3G,{scripts}/clocked.py,--seconds 8 --megabytes 96",
    "300,1,right,0,--mem=3G,{scripts}/clocked.py,--seconds 8 --megabytes 32",
    "300,2,cancelled,,,{scripts}/gate.py,never",
    "300,3,late,,time=00:01:00,{scripts}/gate.py,never",
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
def sheet(site: Site) -> Sheet:
    """The file, when each of its workloads has met its fate; they wait for it side by side."""
    second = site.cluster.nodes[1]
    sheet = site.sheet("fates", HEADER, [row.replace("SECOND", second) for row in ROWS])
    schedule, slurm = site.schedule(sheet, "--max-jobs", "8"), site.cluster.command

    slurm("scancel", site.job(300, 8))
    site.at_the_gate(300, "late")
    slurm("scontrol", "update", f"jobid={site.job(300, 3)}", "EndTime=now+1")
    site.at_the_gate(300, "cancelled")
    slurm("scancel", site.job(300, 2))
    site.at_the_gate(300, "repeated")
    slurm("scontrol", "requeue", site.job(300, 5))

    site.at_the_gate(300, "preempted", "powerless")
    urgent = slurm("sbatch", "--parsable", "-p", "urgent", "-w", second, "--gres=gpu:4", "--wrap", "sleep 600")
    wait_for(lambda: site.state(site.job(300, 6)) == "PREEMPTED", "preemption", timeout=60)
    slurm("scancel", urgent)
    site.cluster.kill_node(second)

    wait_for(lambda: site.state(site.job(300, 5)) == "PENDING", "its place in the queue", timeout=60)
    slurm("scontrol", "update", f"jobid={site.job(300, 5)}", "StartTime=now")
    wait_for(lambda: len(site.named(300, "repeated")) == 2, "the next attempt", timeout=60)
    (site.folder / "open").touch()
    schedule.wait(status=1, timeout=120)
    site.cluster.start_node(second)
    return sheet


@pytest.mark.parametrize("name", ENDS)
def test_slurms_word_becomes_ours(site: Site, sheet: Sheet, name: str) -> None:
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
    assert first[0] == pytest.approx(first[1], abs=0.1)
    memory = {run["name"]: figure(site, run, "memory_used", "process")["mean"] for run in (left, right)}
    assert memory["left"] - memory["right"] == pytest.approx(64 << 20, rel=0.2)
    assert {figure(site, run, "gpu_utilization", "device")["n"] > 5 for run in (left, right)} == {True}
    places = site.ask(
        "select distinct p.host, gpu_uuid from placements p where run_id = any(%s)", [left["run_id"], right["run_id"]]
    )
    assert [place["host"] for place in places] == [socket.gethostname()]


def test_what_slurm_counted_stands_beside_what_was_measured(site: Site, sheet: Sheet) -> None:
    if not site.cluster.accounting:
        pytest.skip("no accounting: slurmdbd or MariaDB is not installed")
    [run] = site.named(300, "left")
    [account] = site.ask("select * from accounting where run_id = %s", run["run_id"])
    assert account["state"] == "COMPLETED"
    assert account["cpu_seconds"] == pytest.approx(figure(site, run, "cpu_usage", "process")["total"], rel=0.25, abs=1)
    assert account["max_rss_bytes"] == pytest.approx(figure(site, run, "memory_used", "process")["max"], rel=0.5)


def figure(site: Site, run: dict[str, Any], quantity: str, scope: str) -> dict[str, Any]:
    """Return a run's summary of one quantity."""
    [row] = site.ask(
        "select n, mean, max, total from run_summary"
        " where run_id = %s and quantity = %s and scope = %s and metric is null",
        run["run_id"], quantity, scope,
    )  # fmt: skip
    return row
