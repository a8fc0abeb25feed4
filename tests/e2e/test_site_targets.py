"""A host that a site's targets file measures already."""

from __future__ import annotations

import os
import socket
import subprocess

import psycopg

from hypergauge.core.services import free_port
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting
from tests.support.home import COMMAND, Home
from tests.support.waiting import wait_for


def test_a_stack_starts_no_exporter_whose_name_is_the_job_of_a_target(dsn: str, new_folder: NewFolder) -> None:
    folder, port = new_folder(), free_port()
    (targets := folder / "targets.yml").write_text(
        f"scrape_configs: [{{job_name: host, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]"
    )
    others = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    exporter = subprocess.Popen(
        [*COMMAND, "exporter", "run", "host", "--port", str(port)],
        env={**others, "BENCH_HOME": str(folder / "exporter")},
        stdout=subprocess.DEVNULL,
    )
    home = Home(folder / "home", folder / "work", {"BENCH_DSN": dsn})
    try:
        with Collecting(dsn, folder / "site", targets), psycopg.connect(dsn, autocommit=True) as connection:
            scraped = "select true from bench.targets where (host, listener) = (%s, 'host') and up and instance <> ''"
            wait_for(lambda: connection.execute(scraped, (socket.gethostname(),)).fetchone(), "the site's first scrape")
            with home.stack():
                services = home.json("status")["services"]
            assert "exporter-process" in services, "it measures this home's runs alone"
            assert "exporter-host" not in services
        with psycopg.connect(dsn) as connection:
            connection.execute("update bench.targets set lease_until = now()")  # the killed collector's ends
        with home.stack():
            assert "exporter-host" in home.json("status")["services"], "no collector scrapes that of the site"
    finally:
        exporter.terminate()
        exporter.wait()
