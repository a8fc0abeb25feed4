"""Move of a user's database to a server and back: runs, samples and MLflow's runs are there, and work goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import own_database
from tests.support.home import Home

pytestmark = [pytest.mark.flavours, pytest.mark.slow]


def runs_of(home: Home) -> list[tuple[str, str]]:
    return [(run["name"], run["status"]) for run in home.query("select name, status from runs order by started_at")]


def metrics_of(home: Home) -> object:
    run_id = home.query("select mlflow_run_id from runs where mlflow_run_id is not null limit 1")[0]["mlflow_run_id"]
    return home.mlflow_run(run_id)["status"]


def test_a_user_moves_to_a_server_and_back(flavour: Flavour, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue(f"{flavour}_dsn")
    with own_database(server, timescaledb=flavour is Flavour.TIMESCALEDB) as dsn:
        embedded = Home(tmp_path / "home", tmp_path / "work")
        with embedded.stack():
            embedded.bench("run", "--name", "before", "--", "sleep", "2")
            refused = embedded.bench("db", "move", dsn, status=2)
            assert "the collector with pid" in refused
            assert "bench down" in refused
            assert runs_of(embedded) == [("before", "finished")]
        (tmp_path / "owner.dsn").write_text(dsn)
        moved = embedded.bench("db", "move", tmp_path / "owner.dsn")
        assert "moved 1 run," in moved
        assert "checksums agree" in moved
        assert "set BENCH_DSN" in moved
        assert "nothing to do" in embedded.bench("db", "move", dsn)

        there = replace(embedded, variables={"BENCH_DSN": dsn})
        with there.stack():
            assert runs_of(there) == [("before", "finished")]
            assert metrics_of(there) == "FINISHED"
            there.bench("run", "--name", "after", "--", "sleep", "1")
        samples = there.query("select count(*) from samples")
        # The old embedded database is still there.
        assert "not empty" in there.bench("db", "move", "embedded", status=2)
        (embedded.path / "postgres").rename(embedded.path / "postgres-before")
        assert "moved 2 runs," in there.bench("db", "move", "embedded")
    back = Home(tmp_path / "home", tmp_path / "work")
    with back.stack():
        assert runs_of(back) == [("before", "finished"), ("after", "finished")]
        assert back.query("select count(*) from samples")[0]["count"] >= samples[0]["count"] > 0
        assert json.loads(back.mlflow("api/2.0/mlflow/experiments/get", experiment_id="0"))["experiment"]
