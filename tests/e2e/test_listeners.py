"""Rows that choose what measures them, and how often; with real exporters and collectors."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conftest import NewFolder
from tests.support.home import SCRIPTS, Home, open_gate
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Listeners,Params"
GATE = SCRIPTS / "gate.py"
# The collector's own are never chosen.
SAMPLES = """
    select listener, count(*)::int as n
    from runs r join samples s on s.time > r.started_at and s.time <= coalesce(r.ended_at, now())
    join series using (series_id) join targets using (target_id)
    where r.run_id = %s and listener <> 'collector' group by listener
"""


@pytest.fixture
def home(new_folder: NewFolder) -> Iterator[Home]:
    folder = new_folder()
    with Home(folder / "home", folder / "work", {"BENCH_SIMULATE": "1xH100"}).stack() as home:
        yield home


def samples(home: Home, run_id: str) -> dict[str, int]:
    """Return the number of samples in a run's time, by exporter."""
    return {row["listener"]: row["n"] for row in home.query(SAMPLES, run_id)}


def test_each_workload_is_measured_by_what_its_rows_choose(home: Home) -> None:
    gates = [home.folder / f"gate-{number}" for number in range(4)]
    choices = ["process@100ms+smi@2s", "none", "top@0.5s", ""]
    rows = [
        f"1,{number},row{number},{GATE},{choice},{gate}"
        for number, (choice, gate) in enumerate(zip(choices, gates, strict=True))
    ]
    sheet = home.sheet("chosen", HEADER, rows)
    plan = " ".join(home.bench("schedule", sheet.path, "--dry-run").split())
    assert "1/0 is measured by nvml every 2 s and process every 0.1 s" in plan
    assert "1/1 is measured by no exporter" in plan
    assert "1/3 is measured" not in plan

    schedule = home.start("schedule", sheet.path)
    found = []
    for number, gate in enumerate(gates):
        [run] = home.running(1)
        run_id = run["run_id"]
        if choices[number] == "none":
            time.sleep(3)  # longer than any exporter's interval
        else:
            enough = {0: {"process": 100, "nvml": 4}, 2: {"host": 100, "process": 20}}.get(number, {"host": 50})
            wait_for(
                lambda: all(samples(home, run_id).get(name, 0) >= least for name, least in enough.items()),  # noqa: B023
                f"samples of run {number}",
            )
        open_gate(gate, 0)
        wait_for(lambda: home.runs(1)[-1]["run_id"] != run_id or schedule.process.poll() is not None, "the next run")  # noqa: B023
        found.append(run_id)
    schedule.wait()
    wait_for(lambda: home.query("select from runs having bool_and(summarised)"), "all summaries")

    measured = [samples(home, run_id) for run_id in found]
    assert [set(one) for one in measured[:3]] == [{"nvml", "process"}, set(), {"host", "process"}]
    assert measured[3].keys() >= {"host", "nvml", "process"}
    kept = home.query(
        "select exporters, listeners, intervals from runs join workloads using (workload_id) order by workload"
    )
    assert kept[0]["exporters"] == {"process": 0.1, "nvml": 2}
    assert [one["exporters"] for one in kept[1:]] == [{}, {"host": 0.5, "process": 0.5}, None]
    # A busy host scrapes later, never more often.
    assert kept[0]["intervals"]["process"] < 0.5 < kept[0]["intervals"]["nvml"]
    assert kept[1]["intervals"] == {}
    assert kept[2]["intervals"].keys() == {"host", "process"}
    assert kept[3]["intervals"].keys() >= {"host", "nvml", "process"}
    totals = home.query(
        "select run_id from run_summary where quantity = 'cpu_usage' and scope = 'process' and device is null"
    )
    assert {one["run_id"] for one in totals} == {found[0], found[2], found[3]}, "no total of a run that is not measured"

    compared = home.bench("compare", "1", "--scope", "process")
    assert "1/1/1: measured by no exporter." in " ".join(compared.split())
    [collector] = home.query("select 1 as one from targets where listener = 'collector' and up")
    assert collector


def test_other_runs_of_the_host_need_more(home: Home) -> None:
    gates = [home.folder / name for name in ("one", "two")]
    other = home.start("run", "--name", "other", "--", "python", str(GATE), str(gates[0]))
    [first] = wait_for(lambda: home.query("select run_id from runs where status = 'running'"), "the other run")
    sheet = home.sheet("less", HEADER, [f"9,1,less,{GATE},none,{gates[1]}"])
    plan = " ".join(home.bench("schedule", sheet.path, "--dry-run").split())
    assert "9/1 chooses no exporter, but is measured by every exporter that works here while " in plan
    assert " runs on this host" in plan

    schedule = home.start("schedule", sheet.path)
    [run] = home.running(9)
    wait_for(lambda: samples(home, run["run_id"]).keys() >= {"host", "process", "nvml"}, "what the other run needs")
    open_gate(gates[0], 0)
    other.wait()
    paused = "select from followed_choices join targets using (target_id) where listener = 'host' and interval = 0"
    wait_for(lambda: home.query(paused), "the end of the measuring")
    open_gate(gates[1], 0)
    schedule.wait()
    assert first["run_id"] != run["run_id"]


def test_a_command_chooses_too(home: Home) -> None:
    home.bench("run", "--listeners", "host@1ms", "--", "true", status=2)
    home.bench("run", "--listeners", "rapls", "--", "true", status=2)
    assert home.query("select from runs") == []
    home.bench("run", "--listeners", "none", "--", "sleep", "1.5")
    [kept] = home.query("select run_id, exporters from runs")
    assert kept["exporters"] == {}
    assert samples(home, kept["run_id"]) == {}
