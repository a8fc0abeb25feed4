"""Kills, database restarts and full disks: no sample is lost or counted twice."""

from __future__ import annotations

import contextlib
import random
import time
from functools import partial
from pathlib import Path
from typing import Literal

import psutil
import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import NewFolder
from tests.support.data.account import Account
from tests.support.exporters.scripted import scripted
from tests.support.home import SCRIPTS, Home
from tests.support.servers.databases import OwnServer, own_server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

KILLS = 20
SUMMARY = """
    select total from run_summary join runs using (run_id)
    where run_id = %s and quantity = 'cpu_usage' and scope = 'process' and metric is null and summarised
"""


@pytest.fixture
def chance() -> random.Random:
    """A seed that is shown where a test fails."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def home(new_folder: NewFolder) -> Path:
    """A home of the test's own."""
    return new_folder() / "home"


def test_collectors_killed_twenty_times_lose_nothing(dsn: str, home: Path, chance: random.Random) -> None:
    account = Account(dsn)
    with scripted(home / "one", dsn) as one, scripted(home / "two", dsn) as two:
        for _, collector in (one, two):
            collector.start()
        for iteration in range(KILLS):  # while one is at work, the other starts
            exporter, collector = (one, two)[iteration % 2]
            if chance.random() < 0.75:  # else it may be killed before its first scrape
                collector.wait_for_scrapes(exporter, 1)
            time.sleep(chance.uniform(0, 0.5))
            collector.kill()
            collector.start()
        for exporter, collector in (one, two):
            collector.wait_for_scrapes(exporter, 3)
            account.wait_for_scrapes(exporter)
            collector.stop()
        account.agrees(*((exporter, KILLS // 2 + 1) for exporter, _ in (one, two)))


Moment = Literal["any", "commit", "copy"]
RESTARTS: list[tuple[str, Moment]] = [
    *((how, moment) for how in ("fast", "immediate", "crash") for moment in ("any", "commit", "copy")),
    ("immediate", "copy"),
]


def test_a_database_restarted_ten_times_loses_nothing(
    flavour: Flavour, new_folder: NewFolder, home: Path, chance: random.Random
) -> None:
    with own_server(flavour, new_folder() / "own") as server:
        account = Account(server.dsn)
        with scripted(home, server.dsn, width=300) as (exporter, collector):
            collector.start()
            collector.wait_for_scrapes(exporter, 1)
            for how, moment in RESTARTS:
                account.wait_for_scrapes(exporter, {max(exporter.sure)})
                wait_for_moment(server, moment, chance)
                if how == "crash":
                    server.crash()
                else:
                    server.stop("fast" if how == "fast" else "immediate")
                    collector.wait_for_scrapes(exporter, chance.randrange(3))
                    server.start()
            collector.wait_for_scrapes(exporter, 3)
            account.wait_for_scrapes(exporter)
            collector.stop()
            assert account.agrees((exporter, 1)) >= len(RESTARTS)


def wait_for_moment(server: OwnServer, moment: Moment, chance: random.Random) -> None:
    """Return some time after now, right after a commit can be seen, or while samples are copied."""
    if moment == "any":
        time.sleep(chance.uniform(0, 0.3))
    elif moment == "copy":
        with server.copy_awaited():
            pass
        time.sleep(chance.uniform(0, 0.005))
    else:
        with psycopg.connect(server.dsn, autocommit=True) as connection:

            def newest() -> object:
                return connection.execute("select max(time) from bench.samples").fetchone()

            before = newest()
            wait_for(lambda: newest() != before, "a commit")


def test_a_collector_started_while_the_database_is_away_scrapes_and_writes_later(
    flavour: Flavour, new_folder: NewFolder, home: Path
) -> None:
    with own_server(flavour, new_folder() / "own") as server:
        account = Account(server.dsn)
        with scripted(home, server.dsn, width=300) as (exporter, collector):
            for life in range(2):  # the first knows nothing of the database
                server.stop("fast")
                collector.start()
                collector.wait_for_scrapes(exporter, 5)
                if life == 1:
                    collector.kill()
                    collector.start()
                    collector.wait_for_scrapes(exporter, 5)
                server.start()
                wait_for(lambda: collector.metrics()["bench_collector_samples_total"], "the first samples")
                account.wait_for_scrapes(exporter)
                collector.wait_for_scrapes(exporter, 2)  # by their id in the database
                account.wait_for_scrapes(exporter)
                collector.stop()
            assert "does not answer" in collector.output
            # No counter begins anew when the database comes back.
            account.agrees((exporter, 3))


def test_a_collector_started_while_the_database_shuts_down_waits_for_it(
    flavour: Flavour, new_folder: NewFolder, home: Path
) -> None:
    with own_server(flavour, new_folder() / "own") as server, scripted(home, server.dsn) as (exporter, collector):
        Database(Settings(home=home, dsn=server.dsn)).open()
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(server.dsn) as locking,
            psycopg.connect(server.dsn, autocommit=True) as observer,
        ):
            locking.execute("lock table bench_internal.migrations")
            collector.start()
            blocked = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%migrations%'"
            wait_for(lambda: collector.alive and observer.execute(blocked).fetchone() is not None, "the collector")
            server.stop("fast")
        collector.wait_for_scrapes(exporter, 2)
        server.start()
        account = Account(server.dsn)
        account.wait_for_scrapes(exporter)
        collector.stop()
        assert collector.output.splitlines()[0].endswith("samples are kept in the spool until the database answers")
        assert "Traceback" not in collector.output
        account.agrees((exporter, 1))


def test_a_killed_collector_loses_no_cpu_time_of_a_run(new_folder: NewFolder) -> None:
    """The collector is away for a part of one run, and for the end of another one."""
    folder = new_folder()
    with Home(folder / "home", folder / "work").stack() as home:
        rows = [f"7,1,long,{SCRIPTS}/burn.py,--seconds 6", f"7,1,short,{SCRIPTS}/burn.py,--seconds 3"]
        sheet = home.sheet("killed", "Experiment,Workload,Name,File,Params", rows)
        schedule = home.start("schedule", sheet.path)
        wait_for(
            lambda: len(home.query("select from series where metric = 'bench_process_cpu_seconds_total'")) == 2,
            "samples of both runs",
        )
        kill_collector(home)
        wait_for(lambda: "finished" in sheet.path.read_text(), "the short run's end")
        home.bench("up")
        schedule.wait()
        for run in home.query("select run_id from runs order by position"):
            end = RunFolder(home.path / "runs" / run["run_id"]).end()
            assert end is not None
            [summary] = wait_for(partial(home.query, SUMMARY, run["run_id"]), "the summary")
            assert summary["total"] == pytest.approx(end.cpu_seconds, rel=0.005)


def kill_collector(home: Home) -> None:
    """Kill the stack's collector, and wait until it is gone."""
    [row] = home.query("select distinct collector_pid as pid from targets where lease_until > now()")
    process = psutil.Process(row["pid"])
    process.kill()
    wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "its end")
