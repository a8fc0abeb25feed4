"""Tags and totals against the runs' own records, through the whole pipeline, in both flavours."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.data.tags import settled, tags_are_true
from tests.support.home import SCRIPTS, Home
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.quiet, pytest.mark.slow]


@dataclass
class HomeWithServer(Home):
    """A home whose database is a server of its own."""

    server: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "BENCH_DSN": self.server}


@pytest.fixture(scope="module", params=[Flavour.POSTGRESQL, Flavour.TIMESCALEDB], ids=str)
def place(request: pytest.FixtureRequest, new_folder: NewFolder) -> Iterator[Home]:
    """A stack on the embedded server, and one on TimescaleDB."""
    if request.param is Flavour.POSTGRESQL:
        yield request.getfixturevalue("home")
        return
    database = request.getfixturevalue("timescaledb_database")
    folder = new_folder()
    with HomeWithServer(folder / "home", folder / "work", server=database).stack() as home:
        yield home


def test_a_collector_that_slept_over_a_runs_end_tags_none_wrongly(place: Home) -> None:
    sheet = place.sheet("slept", "Experiment,Workload,File", ["901,1,{scripts}/family.py"])
    schedule = place.start("schedule", sheet.path)
    [run] = wait_for(lambda: [one for one in place.runs(901) if one["status"] == "running"], "the run")
    collector = json.loads((place.path / "stack" / "collector.service").read_text())["pid"]
    wait_for(lambda: time.time() > run["started"] + 6, "six seconds")
    os.kill(collector, signal.SIGSTOP)
    try:
        wait_for(lambda: sheet.column("Status") == ["finished"], "the end")
        time.sleep(max(0.0, run["started"] + 11 - time.time()))
    finally:
        os.kill(collector, signal.SIGCONT)
    schedule.wait()
    settled(place, 901)
    tags_are_true(place, 901)

    [run] = place.runs(901)
    first, used, last = map(float, place.output(run["run_id"]).split())
    assert run["started"] < first
    assert last < run["ended"]
    assert last - first <= run["duration"] < last - first + 5
    # Though no scrape saw its end, all that it used is there, its 200 short-lived children among it.
    [cpu] = place.query(
        "select total, seconds from run_summary where run_id = %s and quantity = 'cpu_usage' and scope = 'process'"
        " and metric is null",
        run["run_id"],
    )
    assert cpu["total"] == pytest.approx(used, rel=0.02)
    assert cpu["seconds"] == pytest.approx(run["duration"], abs=0.01)


def test_runs_that_overlap_share_the_hosts_samples_and_have_their_own(place: Home) -> None:
    sheet = place.sheet(
        "overlap",
        "Experiment,Workload,File,Params",
        ["902,1,{scripts}/family.py,", "902,1,{scripts}/clocked.py,--seconds 4"],
    )
    place.bench("schedule", sheet.path)
    settled(place, 902)
    tags_are_true(place, 902)
    one, two = place.runs(902)
    shared = place.query(
        "select count(*) as n from run_sets a join run_sets b using (runset_id, place_id)"
        " where a.run_id = %s and b.run_id = %s and a.scope = 'host'",
        one["run_id"], two["run_id"],
    )  # fmt: skip
    assert shared == [{"n": 1}]
    load = (
        "select count(*) as n, count(distinct time) as times from run_samples where quantity = 'load' and run_id = %s"
    )
    for run in (one, two):
        [found] = place.query(load, run["run_id"])
        assert found["n"] == found["times"] == pytest.approx(run["duration"], abs=2)
    [stored] = place.query(
        "select count(*) as n from samples join series using (series_id) where metric = 'node_load1'"
        " and time >= to_timestamp(%s) and time < to_timestamp(%s)", one["started"], one["ended"],
    )  # fmt: skip
    assert stored["n"] == place.query(load, one["run_id"])[0]["n"]
    used = float(place.output(one["run_id"]).split()[1])
    total = "select total from run_summary where run_id = %s and quantity = 'cpu_usage' and scope = 'process' and metric is null"
    assert place.query(total, one["run_id"])[0]["total"] == pytest.approx(used, rel=0.02)
    assert place.query(total, two["run_id"])[0]["total"] < used


@pytest.mark.parametrize("scraped", [True, False], ids=["scraped", "too short for a scrape"])
def test_a_run_is_measured_however_short(place: Home, scraped: bool) -> None:
    name, experiment = ("longer", 903) if scraped else ("shorter", 904)
    seconds = 2 if scraped else 0.2
    sheet = place.sheet(
        name, "Experiment,Workload,File,Params", [f"{experiment},1,{SCRIPTS}/clocked.py,--seconds {seconds}"]
    )
    place.bench("schedule", sheet.path)
    settled(place, experiment)
    [entry] = place.json("compare", str(experiment))["runs"]
    [run] = place.runs(experiment)
    kernel = json.loads((place.path / "runs" / run["run_id"] / "end.json").read_text())["cpu_seconds"]
    assert entry["cpu_seconds"] == pytest.approx(kernel, rel=0.02, abs=0.02)
    assert kernel > 0
    assert entry["peak_memory_bytes"] > 5e6
