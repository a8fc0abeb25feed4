"""A real Prometheus and node_exporter: its configuration, our scrapes of one, and its scrapes of us."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt
import psycopg
import pytest

from hypergauge.collector.discovery.discovery import read_targets
from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.core.services import free_port
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting, group
from tests.support.exporters.misbehaving import BadExporters
from tests.support.servers.certificates import Site
from tests.support.waiting import HUNG_SECONDS, wait_for

CONFIGURATION = Path(__file__).parents[2] / "data" / "targets"

one_flavour = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


def program(name: str, package: str) -> str:
    """Return the path of a program, or skip."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"{name} is not installed; Debian has it in the package {package}")
    return found


@contextlib.contextmanager
def running(command: list[str], url: str, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a program until the block ends; wait until `url` answers, and yield it."""

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=HUNG_SECONDS):
            return True
        return False

    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            wait_for(answers, f"an answer of {command[0]}")
            yield url
        finally:
            process.terminate()
            process.wait(HUNG_SECONDS)


@contextlib.contextmanager
def prometheus(folder: Path, configuration: Path) -> Iterator[str]:
    """Run a real Prometheus, and yield its address."""
    binary = program("prometheus", "prometheus")
    port = free_port()
    command = [
        binary, f"--config.file={configuration}", f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
    ]  # fmt: skip
    with running(command, f"http://127.0.0.1:{port}/-/ready", folder / "prometheus.txt"):
        yield f"http://127.0.0.1:{port}"


def fetch(address: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(
        f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=HUNG_SECONDS
    ) as answer:
        return json.loads(answer.read())["data"]


def answer(address: str, query: str) -> Any:
    return fetch(address, "query", query=query)["result"]


def active(address: str) -> list[dict[str, Any]]:
    return list(fetch(address, "targets", state="active")["activeTargets"])


def test_a_prometheus_yml_gives_the_same_targets(tmp_path: Path) -> None:
    ours = {
        (one.url, frozenset(one.labels.items()), one.interval, one.timeout)
        for one in read_targets(CONFIGURATION / "prometheus.yml", default_interval=1.0)
    }
    assert len(ours) > 10
    with prometheus(tmp_path, CONFIGURATION / "prometheus.yml") as address:
        wait_for(lambda: len(active(address)) >= len(ours), "its targets")
        found = active(address)
    theirs = {
        (
            one["scrapeUrl"],
            frozenset(one["labels"].items()),
            _seconds(one["scrapeInterval"]),
            _seconds(one["scrapeTimeout"]),
        )
        for one in found
    }
    assert sorted(ours - theirs, key=str) == sorted(theirs - ours, key=str)


def test_prometheus_scrapes_an_exporter_over_mutual_tls(tmp_path: Path) -> None:
    """With a certificate, with a password, and with neither; the web.yml is in Prometheus's format."""
    promtool, site, port = program("promtool", "prometheus"), Site(tmp_path / "site"), free_port()
    site.issue("localhost", "127.0.0.1", stem="server")
    site.issue("prometheus", stem="client")
    hashed = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
    webs = {
        port: site.web("server"),
        free_port(): site.web("server", clients=False, users=f"  ann: {hashed}\n", of="ann"),
    }
    for web in webs.values():
        done = subprocess.run([promtool, "check", "web-config", web], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    tls = {"ca_file": "site/ca.pem"}
    certificate = {"cert_file": "site/client.pem", "key_file": "site/client.key"}
    jobs = {
        "certificate": {"tls_config": {**tls, **certificate}},
        "password": {"tls_config": tls, "basic_auth": {"username": "ann", "password": "hunter2"}},
        "neither": {"tls_config": tls},
    }
    ports = dict(zip(jobs, [*webs, port], strict=True))
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {
                        "job_name": name,
                        "scheme": "https",
                        "static_configs": [{"targets": [f"localhost:{ports[name]}"]}],
                        **job,
                    }
                    for name, job in jobs.items()
                ],
            }
        )
    )
    with contextlib.ExitStack() as listening:
        for number, web in webs.items():
            words = ["exporter", "run", "host", "--port", str(number), "--bind", "0.0.0.0", "--web-config", str(web)]
            log = listening.enter_context((tmp_path / f"{number}.txt").open("wb"))
            process = subprocess.Popen([sys.executable, "-P", "-m", "hypergauge.cli", *words], stdout=log, stderr=log)
            listening.callback(process.wait)
            listening.callback(process.terminate)
        with prometheus(tmp_path, configuration) as address:
            for job in ("certificate", "password"):
                wait_for(partial(answer, address, f'rate(node_cpu_seconds_total{{job="{job}"}}[10s])'), job)
            [refused] = [one for one in active(address) if one["labels"]["job"] == "neither"]
    assert "certificate" in refused["lastError"]


def _seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


@one_flavour
def test_prometheus_scrapes_exporters_and_the_collector(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    program("prometheus", "prometheus")
    port = free_port()
    exporter = [sys.executable, "-P", "-m", "hypergauge.cli", "exporter", "run"]
    process_port = free_port()
    with (
        BadExporters() as bad,
        running([*exporter, "host", "--port", str(port)], f"http://127.0.0.1:{port}/metrics", tmp_path / "host.txt"),
        running(
            [*exporter, "process", "--port", str(process_port)],
            f"http://127.0.0.1:{process_port}/metrics",
            tmp_path / "process.txt",
        ),
    ):
        targets = tmp_path / "targets.json"
        targets.write_text(json.dumps([group(f"127.0.0.1:{bad.port}", __metrics_path__="/good/0")]))
        with Collecting(dsn, new_folder() / "scraped", targets) as collector:
            configuration = tmp_path / "prometheus.yml"
            addresses = {"host": port, "process": process_port, "collector": collector.port}
            jobs = [
                {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{number}"]}]}
                for name, number in addresses.items()
            ]
            configuration.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
            with prometheus(tmp_path, configuration) as address:
                queries = (
                    "count(up == 1) == 3",
                    'node_time_seconds{job="host"}',
                    'rate(node_cpu_seconds_total{mode="idle",cpu="0"}[10s])',
                    'bench_collector_targets{state="up"} == 1',
                    'bench_exporter_up{exporter="process"} == 1',
                    "histogram_quantile(0.5, bench_collector_scrape_seconds_bucket)",
                )
                for query in queries:
                    wait_for(partial(answer, address, query), query)


def test_ended_runs_cost_prometheus_no_sample(new_folder: NewFolder, tmp_path: Path) -> None:
    """Their last totals are exposed for a minute: none is out of order, and Prometheus stores them unchanged."""
    program("prometheus", "prometheus")
    port, home = free_port(), new_folder() / "home"
    url = f"http://127.0.0.1:{port}/metrics"
    configuration = tmp_path / "prometheus.yml"
    job = {"job_name": "process", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    configuration.write_text(json.dumps({"global": {"scrape_interval": "200ms"}, "scrape_configs": [job]}))
    exporter = [sys.executable, "-P", "-m", "hypergauge.cli", "exporter", "run", "process", "--port", str(port)]
    environment = {**os.environ, "BENCH_HOME": str(home)}
    with (
        running(exporter, url, tmp_path / "process.txt", environment),
        prometheus(tmp_path, configuration) as address,
    ):
        for _ in range(3):
            folder = RunFolder(home / "runs" / uuid.uuid4().hex)
            folder.create({})
            began = time.time()
            folder.write_state(SupervisorState(1, 1.0, None, began))
            variables = {**os.environ, "BENCH_RUN_ID": folder.run_id}
            with subprocess.Popen(
                [sys.executable, "-c", "import sys; sys.stdin.read()"], env=variables, stdin=subprocess.PIPE
            ):
                seconds = f'bench_process_cpu_seconds_total{{run_id="{folder.run_id}"}}'
                wait_for(partial(answer, address, f"{seconds} >= 0"), "a live value")
            folder.write_end(RunEnd("finished", began, time.time(), 0, None, 12.5, 0, 0, 1 << 20))
            [(_, before)] = [one["value"] for one in answer(address, "count_over_time(up[10m])")]
            wait_for(
                partial(answer, address, f"count_over_time(up[10m]) > {before} + 5"), "scrapes of the ended run", 60
            )
            assert answer(address, f"max_over_time({seconds}[10m]) == 12.5"), "the run's last total"
        with urllib.request.urlopen(f"{address}/metrics", timeout=HUNG_SECONDS) as metrics:
            lines = metrics.read().decode().splitlines()
    refused = ("sample_out_of_order", "sample_duplicate_timestamp", "sample_out_of_bounds")
    assert [
        line for line in lines if line.startswith(tuple(f"prometheus_target_scrapes_{one}_total" for one in refused))
    ] == [
        f"prometheus_target_scrapes_{one}_total 0"
        for one in ("sample_duplicate_timestamp", "sample_out_of_bounds", "sample_out_of_order")
    ]
    assert "Error on ingesting" not in (tmp_path / "prometheus.txt").read_text()


@one_flavour
def test_node_exporter_is_scraped(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    binary = program("prometheus-node-exporter", "prometheus-node-exporter")
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    with running([binary, f"--web.listen-address=127.0.0.1:{port}"], url, tmp_path / "node_exporter.txt"):
        targets = tmp_path / "prometheus.yml"
        targets.write_text(
            f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{rack: r1}}}}]
    metric_relabel_configs:
      - {{source_labels: [__name__], regex: "go_.*|process_.*|promhttp_.*", action: drop}}
      - {{source_labels: [__name__], regex: "node_(load1)", target_label: __name__, replacement: "renamed_$1"}}
"""
        )
        with Collecting(dsn, new_folder() / "node", targets) as collector:
            wait_for(lambda: collector.metric("scrapes_total")["ok"] >= 4, "scrapes")
            dropped = collector.metric("dropped_lines_total")
            collector.stop()
    assert dropped["relabel"] > 0
    assert dropped.keys() == {"relabel"}, dropped
    with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
        rows = connection.execute(
            """
            select metric, quantity, labels, count(*), min(value) from samples join series using (series_id)
            group by metric, quantity, labels
            """
        ).fetchall()
        target = connection.execute("select host, listener, instance, up, clock_offset, clock_uncertainty from targets")
        [(_, job_name, instance, up, offset, uncertainty)] = target.fetchall()
    assert (job_name, instance, up) == ("node", f"127.0.0.1:{port}", True)
    assert abs(offset) <= uncertainty + 0.001, "the clock is this host's own"
    metrics = {metric for metric, *_ in rows}
    assert {"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "renamed_load1"} <= metrics
    assert not {
        metric for metric in metrics if metric.startswith(("go_", "process_", "promhttp_")) or metric == "node_load1"
    }
    assert {"cpu_usage", "memory_available"} <= {quantity for _, quantity, *_ in rows} | {"memory_available"}
    assert all(labels["rack"] == "r1" and "job" not in labels for _, _, labels, *_ in rows)
    idle = [
        count for metric, _, labels, count, _ in rows if metric == "node_cpu_seconds_total" and labels["mode"] == "idle"
    ]
    assert idle
    assert min(idle) >= 3
