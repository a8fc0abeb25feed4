"""Exporters that announce their address in the database."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from hypergauge.collector.discovery.announced import announced
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.services import Service, free_port
from hypergauge.core.system.processes import identity
from hypergauge.sql.ingest import announcements, targets
from hypergauge.sql.ingest.announcements import Announcement
from hypergauge.sql.ingest.targets import TargetRow, TargetState
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.local_exporters import LocalExporters, answers
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting
from tests.support.servers.databases import own_server
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import HOST, World

ONE_FLAVOUR = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
ONE = Announcement("n1", "host", "http://n1:9701/metrics")
ROW = TargetRow("n1", "host", "n1:9701", ONE.url)
LONG_AGO = f"now() - interval '{announcements.SILENT_SECONDS + 1} s'"

Listen = Callable[..., subprocess.Popen[str]]


def test_an_announcement_stays_until_it_is_withdrawn(database: Database) -> None:
    other = Announcement("n1", "host", "http://n1:40001/metrics")
    for one in (ONE, other, ONE):
        announcements.announce(database, one)
    assert announced(database) == [ONE, other], "the first one stays first"
    announcements.withdraw(database, ONE)
    announcements.withdraw(database, ONE)
    assert announced(database) == [other]


def test_an_unreachable_announcement_is_withdrawn_after_a_while(database: Database) -> None:
    announcements.announce(database, ONE)
    with database.session() as connection:

        def report(up: bool | None) -> list[Announcement]:
            assert targets.report_targets(connection, {mine: TargetState(up)}, "a") == []
            return announced(database)

        [claimed] = targets.claim_targets(connection, "a", "h1", 11, [ROW])
        assert claimed is not None
        mine = claimed
        assert report(None) == report(up=True) == report(up=False) == [ONE]
        connection.execute(f"update targets set down_since = {LONG_AGO}".encode())
        assert announced(database) == [ONE], "it was just announced"
        connection.execute(f"update announcements set renewed_at = {LONG_AGO}".encode())
        assert report(up=True) == [ONE], "it answers"
        assert report(up=False) == [ONE], "it answered until now"
        connection.execute(f"update targets set down_since = {LONG_AGO}, lease_until = null".encode())
        assert announced(database) == [ONE], "no collector tries it"
        assert targets.claim_targets(connection, "a", "h1", 12, [ROW]) == [mine]
        assert announced(database) == [ONE], "a collector begins to try it"
        report(up=False)
        connection.execute(f"update targets set down_since = {LONG_AGO}".encode())
        assert report(up=False) == []


def test_hosts_without_exporters_are_listed(world: World) -> None:
    def unmeasured() -> list[str]:
        return targets.unmeasured_hosts(world.connection)

    now = time.time()
    run = world.run(now - 60)
    other = world.run(now - 60, position=2)
    assert unmeasured() == [HOST]
    rows = [TargetRow(HOST, "collector", "", "http://n1:1/metrics"), TargetRow(HOST, "host", "", "http://n1:2/metrics")]
    [own] = targets.claim_targets(world.connection, "a", "h1", 11, rows[:1])
    assert own is not None
    assert unmeasured() == [HOST], "a collector that scrapes itself measures no host"
    [mine] = targets.claim_targets(world.connection, "a", "h1", 11, rows[1:])
    assert mine is not None
    assert unmeasured() == [], "it has not been scraped yet"
    targets.report_targets(world.connection, {mine: TargetState(up=False)}, "a")
    assert unmeasured() == [HOST]
    targets.report_targets(world.connection, {mine: TargetState(up=True)}, "a")
    assert unmeasured() == []
    world.connection.execute("update targets set lease_until = now() - interval '1 s'")
    assert unmeasured() == [HOST], "its collector has ended"
    for one in (run, other):
        world.end(one, now - 60, now)
    assert unmeasured() == []


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """Start the exporter `host` with a database; its output goes to a file."""
    started: list[subprocess.Popen[str]] = []

    def start(dsn: str, *words: str) -> subprocess.Popen[str]:
        with (tmp_path / "exporter.txt").open("a") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "hypergauge.cli", "exporter", "run", "host", *words],
                    env={**os.environ, "BENCH_HOME": str(tmp_path / "home"), "BENCH_DSN": dsn},
                    stdout=log, stderr=log, text=True,
                )
            )  # fmt: skip
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


@pytest.mark.slow
@ONE_FLAVOUR
def test_an_exporter_starts_is_killed_returns_and_stops(
    database: Database, new_folder: NewFolder, tmp_path: Path, listen: Listen
) -> None:
    file = tmp_path / "targets.yml"
    file.write_text(
        "scrape_configs: [{job_name: site, announced_sd_configs: [{refresh_interval: 200ms}], scrape_interval: 200ms}]"
    )
    port = free_port()
    mine = Announcement(socket.gethostname(), "host", f"http://127.0.0.1:{port}/metrics")

    def up() -> dict[str, int]:
        return dict(collector.metric("targets"))

    with Collecting(database.dsn, new_folder() / "announced", file) as collector:
        first = listen(database.dsn, "--port", str(port))
        wait_for(lambda: up() == {"up": 1, "down": 0, "taken": 0, "paused": 0}, "a target outside any file")
        assert announced(database) == [mine]
        first.kill()
        wait_for(lambda: up()["down"] == 1, "its loss")
        with database.session() as connection:
            wait_for(
                lambda: connection.execute("select from targets where down_since is not null").fetchone() is not None,
                "word of the loss",
            )
            for column in ("announcements set renewed_at", "targets set down_since"):
                connection.execute(f"update {column} = {LONG_AGO}".encode())
        wait_for(lambda: up() == {"up": 0, "down": 0, "taken": 0, "paused": 0}, "its withdrawal")
        assert announced(database) == []
        again = listen(database.dsn, "--port", str(port))
        wait_for(lambda: up()["up"] == 1, "its return")
        again.send_signal(signal.SIGTERM)
        assert again.wait(HUNG_SECONDS) == 0
        assert announced(database) == []
        wait_for(lambda: up() == {"up": 0, "down": 0, "taken": 0, "paused": 0}, "its end")
        collector.stop()
    with database.session() as connection:
        assert connection.execute("select host, listener, count(*) from targets group by 1, 2").fetchall() == [
            (mine.host, "host", 1)
        ]


@ONE_FLAVOUR
def test_a_targets_file_precedes_announcements(database: Database, new_folder: NewFolder, tmp_path: Path) -> None:
    here = socket.gethostname()
    port = free_port()
    urls = [f"http://127.0.0.1:{port + at}/metrics" for at in range(4)]
    for exporter, url in (("host", urls[1]), ("other", urls[2]), ("free", urls[3])):
        announcements.announce(database, Announcement(here, exporter, url))
    file = tmp_path / "targets.yml"
    file.write_text(f"""
scrape_configs:
  - {{job_name: host, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}
  - {{job_name: x, static_configs: [{{targets: ["127.0.0.1:{port + 2}"]}}]}}
  - {{job_name: site, announced_sd_configs: [{{refresh_interval: 200ms}}]}}
""")
    with Collecting(database.dsn, new_folder() / "both", file) as collector, database.session() as connection:
        query = "select listener, url from targets where lease_until > now() order by url"
        expected = [("host", urls[0]), ("x", urls[2]), ("free", urls[3])]
        wait_for(lambda: connection.execute(query).fetchall() == expected, "the targets")
        collector.stop()


@ONE_FLAVOUR
def test_a_stack_scrapes_its_hosts_announcements_except_other_homes(database: Database, settings: Settings) -> None:
    here = socket.gethostname()
    for host, exporter, port in ((here, "host", 1), (here, "host", 2), (here, "process", 3), ("n7", "rapl", 4)):
        announcements.announce(database, Announcement(host, exporter, f"http://127.0.0.1:{port}/metrics"))
    exporters = LocalExporters(settings, database)
    assert {key: target.url for key, target in exporters().items()} == {
        (here, "host", ""): "http://127.0.0.1:1/metrics"
    }
    service = Service("exporter-host", os.getpid(), identity(os.getpid()) or 0.0, "http://127.0.0.1:9/metrics", "")
    settings.stack_dir.mkdir(parents=True)
    write_atomically(settings.stack_dir / "exporter-host.service", json.dumps(asdict(service)))
    assert [target.url for target in exporters().values()] == [service.url], "it runs its own"
    assert not answers("http://127.0.0.1:1/metrics")


@ONE_FLAVOUR
def test_an_exporter_works_without_the_database(flavour: Flavour, tmp_path: Path, listen: Listen) -> None:
    log = tmp_path / "exporter.txt"
    with own_server(flavour, tmp_path / "server") as server:
        with Database(Settings(home=tmp_path, dsn=server.dsn)) as database:
            pass
        server.stop("fast")
        started = listen(server.dsn, "--bind", "127.0.0.1")
        wait_for(lambda: "listening on http://127.0.0.1:" in log.read_text(), "the exporter")
        wait_for(
            lambda: "failed, and is tried again: the database at" in log.read_text(), "the message about the database"
        )
        server.start()
        wait_for(lambda: len(announced(database)) == 1, "its announcement")
        server.stop("fast")
        started.send_signal(signal.SIGTERM)
        assert started.wait(HUNG_SECONDS) == 0
        assert "stays announced until a collector cannot reach it" in log.read_text()


def test_announcements_need_a_database(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    words = [sys.executable, "-P", "-m", "hypergauge.cli", "exporter", "run", "host", "--announce", "n1"]
    environment["BENCH_HOME"] = str(tmp_path)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "BENCH_DSN" in done.stderr
