"""A database and a collector on one host, exporters and runs on others, each in its own network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Stack
from hypergauge.sql.schema.flavour import Flavour
from tests.support.cluster.hosts import Host, another_clock, hosts
from tests.support.home import Home, Started
from tests.support.waiting import wait_for

RELAY = Path(__file__).parents[1] / "support" / "servers" / "relay.py"
TARGETS = "scrape_configs: [{job_name: site, announced_sd_configs: [{refresh_interval: 1s}]}]"
EXPORTER = ("exporter", "run", "host", "--bind", "0.0.0.0", "--insecure", "--port", "9701")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"]),
    pytest.mark.quiet,
]


@dataclass
class Site:
    """A server with the database, and hosts that reach it by its name."""

    server: Host
    others: list[Host]
    folder: Path
    dsn: str
    homes: list[Home] = field(default_factory=list)

    def home(self, host: Host, **variables: str) -> Home:
        """Return a home on a host; what it has started ends with the test."""
        own = {
            "BENCH_DSN": conninfo.make_conninfo(self.dsn, host=self.server.name, port=5432),
            "MLFLOW_TRACKING_URI": f"http://{self.server.name}:5000",  # no process is there
        }
        folder = self.folder / host.name
        folder.mkdir()
        self.homes.append(Home(folder / "home", folder, {**own, **variables}, host.through))
        return self.homes[-1]

    def query(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Query the database."""
        with psycopg.connect(
            self.dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public"
        ) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def up(self) -> list[tuple[object, ...]]:
        """Return the targets that answer."""
        return self.query(
            "select host, listener, instance from targets"
            " where listener <> 'collector' and up and down_since is null and lease_until > now() order by 1, 2"
        )


@pytest.fixture
def site(dsn: str, request: pytest.FixtureRequest) -> Iterator[Site]:
    with (
        hosts("server", *request.param) as (server, *others),
        tempfile.TemporaryDirectory(prefix="bench-two-") as folder,
    ):
        socket = f"{conninfo.conninfo_to_dict(dsn)['host']}/.s.PGSQL.5432"
        relay = subprocess.Popen([*server.through, sys.executable, str(RELAY), server.address, "5432", socket])
        site = Site(server, others, Path(folder), dsn)
        try:
            collecting = site.home(server)
            (site.folder / "targets.yml").write_text(TARGETS)
            collecting.start("collector", "run", "--targets", site.folder / "targets.yml")
            yield site
        finally:
            for home in site.homes:
                home.end()
                Stack(Settings(home=home.path)).stop_all()  # what a command that was ended has left
            relay.kill()
            relay.wait()


def start_run(home: Home) -> tuple[Started, Path]:
    """Start a run that continues until a file is there."""
    gate = home.folder / "gate"
    waiting = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.1)"
    return home.start("run", "--", sys.executable, "-c", waiting), gate


@pytest.mark.parametrize("site", [("node7",)], indirect=True, ids=["one"])
def test_a_run_on_another_host_is_measured_from_here(site: Site) -> None:
    [node] = site.others
    server, there = site.homes[0], site.home(node)
    exporter = there.start(*EXPORTER)
    wait_for(lambda: site.up() == [("node7", "host", "node7:9701")], "the exporter of the other host")

    run, gate = start_run(there)
    [going] = wait_for(lambda: server.json("status")["runs"], "the run, seen from the server")
    assert server.json("status")["unmeasured"] == []
    run_id = going["run_id"]
    assert f"host {node.name}" in server.bench("stop", run_id, status=2)
    assert node.name in server.bench("logs", run_id, status=1)
    services = there.json("status")["services"]
    assert "exporter-process" in services
    assert "exporter-host" not in services, "the host's own answers"

    exporter.kill()
    wait_for(lambda: ("node7", "host", "node7:9701") not in site.up(), "the loss of the exporter")
    there.start(*EXPORTER)
    wait_for(lambda: ("node7", "host", "node7:9701") in site.up(), "its return")
    gate.touch()
    run.wait()

    assert [one["status"] for one in server.json("list", going["run"].split("/")[0])] == ["finished"]
    tagged = site.query(
        "select distinct scope, host from run_samples where run_id = %s and metric in ('node_load1', 'bench_process_threads')",
        run_id,
    )
    assert sorted(tagged) == [("host", "node7"), ("process", "node7")]
    assert site.query("select count(*) from targets where (host, listener) = ('node7', 'host')") == [(1,)]
    idle = (
        "select count(*) > 0 from samples join series using (series_id) where metric = 'node_load1' and runset_id = 0"
    )
    assert site.query(idle) == [(True,)]


@pytest.mark.parametrize("site", [("ahead", "behind")], indirect=True, ids=["two"])
def test_a_run_on_a_host_whose_clock_is_off_by_minutes_has_all_that_was_measured_of_it(site: Site) -> None:
    off = {"ahead": 300, "behind": -300}
    homes = {host.name: site.home(host, **another_clock(site.folder, off[host.name])) for host in site.others}
    for home in homes.values():
        home.start(*EXPORTER)
    wait_for(lambda: len(site.up()) == 2, "the exporters of both")
    runs = {name: start_run(home) for name, home in homes.items()}
    going = "select host, extract(epoch from started_at - now()) from runs where status = 'running' order by host"
    found = wait_for(lambda: rows if len(rows := site.query(going)) == 2 else None, "both runs")
    assert [(host, round(float(str(ago)) / 60)) for host, ago in found] == [("ahead", 5), ("behind", -5)]
    clocks = {one["host"]: round(one["offset"]) for one in site.homes[0].json("status")["clocks"]}
    assert {host: clocks[host] for host in off} == pytest.approx(off, abs=1)

    def tagged() -> list[tuple[object, ...]]:
        # Scrapes before a clock was known to be 300 s off lie within a running run, until that ends.
        return site.query("""
            select r.host, s.metric, count(*) filter (where inside and x.time < r.started_at + interval '290 s') > 5,
                   count(*) filter (where inside <> (x.runset_id in (select runset_id from run_sets where run_id = r.run_id)))
            from runs r join series s using (host) join samples x using (series_id),
                 lateral (select x.time >= r.started_at and x.time < coalesce(r.ended_at, 'infinity') as inside) i
            where metric in ('node_load1', 'bench_process_threads') group by 1, 2 order by 1, 2
        """)

    every = [(host, metric, True, 0) for host in off for metric in ("bench_process_threads", "node_load1")]
    wait_for(lambda: tagged() == every, "samples of both")
    for _, gate in runs.values():
        gate.touch()
    for run, _ in runs.values():
        run.wait()
    wait_for(lambda: tagged() == every, f"all samples of both, not {tagged()}")
