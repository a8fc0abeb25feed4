"""`bench status` on a real database: hosts with a wrong clock, and hosts without exporters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Service, free_port
from hypergauge.sql.ingest import targets
from hypergauge.sql.ingest.targets import TargetRow, TargetState
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.stack.unmeasured import watching_unmeasured
from tests.support.waiting import wait_for
from tests.support.world import HOST, World


def bench(settings: Settings, *words: str) -> str:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hypergauge.cli", *words],
        env={**others, **settings.environment()}, cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_clocks_that_are_surely_off_are_named(database: Database) -> None:
    clocks = {"good": (0.002, 0.01), "unsure": (3.0, 4.0), "ahead": (2.5, 0.001), "behind": (-60.2, 0.02)}
    with database.session() as connection:
        rows = [TargetRow(host, "node", "", "http://x") for host in clocks]
        ids = targets.claim_targets(connection, "a", "h", 1, rows)
        connection.execute("update targets set lease_until = now()")
        states = {
            one: TargetState(True, None, *clocks[row.host])
            for one, row in zip(ids, rows, strict=True)
            if one is not None
        }
        assert len(states) == 4
        targets.report_targets(connection, states, "a")
        connection.execute("update targets set last_seen = now()")
    output = " ".join(bench(database.settings, "status").split())
    assert "the clock of ahead is 2.5 s ahead of the collector's, ± 1 ms" in output
    assert "the clock of behind is 1:00 behind the collector's, ± 20 ms" in output
    assert "clock of good" not in output
    assert "clock of unsure" not in output
    status = json.loads(bench(database.settings, "status", "--json"))["clocks"]
    assert {one["host"]: (one["offset"], one["uncertainty"]) for one in status} == clocks


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_a_host_on_which_nothing_is_measured_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.run(time.time() - 60)
    settings = world.database.settings
    words = f"no exporter of {HOST} answers"
    assert words in " ".join(bench(settings, "status").split())
    found = {one["what"]: one for one in json.loads(bench(settings, "doctor", "--json"))}[f"host {HOST}"]
    assert not found["ok"]
    assert words in found["detail"]
    monkeypatch.setattr("hypergauge.stack.unmeasured._LOOK_SECONDS", 0.05)
    output: list[str] = []
    with watching_unmeasured(world.database, lambda: [run], output.append):
        wait_for(lambda: output, "a message")
        world.end(run, time.time() - 60, time.time())
        time.sleep(0.3)
        other = world.run(time.time(), position=2)
        time.sleep(0.3)
        world.end(other, time.time() - 1, time.time())
    assert len(output) == 1, "once, and of no other user's runs"
    assert words in output[0]


def test_services_with_long_names_line_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, dsn=f"host=127.0.0.1 port={free_port()} dbname=x connect_timeout=2")
    (tmp_path / "stack").mkdir()
    for name in ("exporter-process", "mlflow"):
        service = Service(name, os.getpid(), 0.0, "http://127.0.0.1:9", "http://127.0.0.1:9/health")
        (tmp_path / "stack" / f"{name}.service").write_text(json.dumps(asdict(service)))
    lines = [line for line in bench(settings, "status").splitlines() if " down" in line]
    assert [line.split()[0] for line in lines] == ["database", "exporter-process", "mlflow"]
    assert {line.index(" down") for line in lines} == {len("exporter-process") + 1}


def test_unreachable_services_are_unknown(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, dsn=f"host=127.0.0.1 port={free_port()} dbname=x connect_timeout=2")
    output = " ".join(bench(settings, "status").split())
    assert "no run is running" not in output
    assert "the running runs are unknown" in output
    status = json.loads(bench(settings, "status", "--json"))
    assert (status["runs"], status["failing"], status["clocks"], status["unmeasured"]) == (None,) * 4
    assert not status["database"]["up"]
