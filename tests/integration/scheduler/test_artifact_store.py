"""Artifacts in an S3 store behind MLflow's server: all of them, also after an outage."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from typer.testing import CliRunner, Result

from hypergauge.cli import app
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, TrackingUnavailable
from hypergauge.core.services import Stack, free_port
from hypergauge.gpu import inventory
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.requests.single_run import run_command
from hypergauge.scheduler.tracking.artifact_store import require_store
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.tracking_server import starting_tracking
from tests.conftest import own_database
from tests.support.servers import relay
from tests.support.servers.object_store import ObjectStore, object_store
from tests.support.waiting import wait_for

SCRIPT = """
import pathlib, mlflow
from hypergauge import track
with track.phase("learning"):
    pathlib.Path("weights.txt").write_text("0.5")
mlflow.log_artifact("weights.txt")
print("learned")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


def kept(store: ObjectStore, mlflow_run_id: str) -> dict[str, bytes]:
    """Return what is kept of a run, by name."""
    return {
        path.rpartition("/")[2]: content
        for path, content in store.objects().items()
        if path.startswith("lab/") and f"/{mlflow_run_id}/artifacts/" in path
    }


class Way:
    """The way to the store, which can be cut."""

    def __init__(self, store: ObjectStore) -> None:
        self._there, self._port = f"127.0.0.1:{store.port}", free_port()
        self._relay: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        self._relay = subprocess.Popen([sys.executable, relay.__file__, "127.0.0.1", str(self._port), self._there])
        wait_for(self._leads_there, "the way to the store")

    def cut(self) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()

    def _leads_there(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@pytest.fixture
def way(store: ObjectStore) -> Iterator[Way]:
    made = Way(store)
    made.open()
    yield made
    made.cut()


@dataclass
class Site:
    """A database, and MLflow's server as the local stack starts it; the way to its store can be cut."""

    settings: Settings
    database: Database
    uri: str
    messages: list[str] = field(default_factory=list)

    def run(self, script: str) -> dict[str, Any]:
        """Run a script to its end, and return it as the database has it."""
        tracking, report = Tracking(self.uri), lambda event: self.messages.append(event.message)
        executor = LocalExecutor(self.database, self.settings, tracking, inventory(None), report)
        job = job_from_command([sys.executable, "-c", script], name="short", devices=None)
        _, [outcome] = run_command(executor, job)
        run_id = outcome.run_id
        with psycopg.connect(
            self.database.dsn, row_factory=dict_row, options="-csearch_path=bench,bench_internal,bench_dashboard,public"
        ) as connection:
            found = connection.execute("select * from runs where run_id = %s", (run_id,)).fetchone()
        assert found is not None
        assert found["status"] == "finished"
        return found

    def logs(self, run: dict[str, Any], *words: str) -> Result:
        """Request a run's output on a host that does not have its folder."""
        variables = {
            "BENCH_DSN": self.database.dsn, "MLFLOW_TRACKING_URI": self.uri, "BENCH_HOME": f"{self.settings.home}-other",
        }  # fmt: skip
        return CliRunner().invoke(app, ["logs", run["run_id"], *words], env=variables)


@pytest.fixture
def site(
    store: ObjectStore, way: Way, postgresql_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(store.secret + "\n")
    for name, value in store.variables(way.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY_FILE", str(tmp_path / "secret"))
    with own_database(postgresql_dsn, timescaledb=False) as dsn:
        settings = Settings(
            home=tmp_path / "home", dsn=dsn, artifacts="s3://runs/lab", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db"
        )
        stack = Stack(settings)
        with Database(settings) as database:
            stack.keep(True)
            with starting_tracking(stack, settings, database, dict(os.environ), print) as service:
                pass
            try:
                stack.await_answer(service, 240)
                yield Site(settings, database, service.url)
            finally:
                stack.stop_all()


# The local stack's services are meant to outlive the process that starts them.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_what_a_run_leaves_arrives_through_mlflow_now_or_later(site: Site, store: ObjectStore, way: Way) -> None:
    run = site.run(SCRIPT)
    found = kept(store, run["mlflow_run_id"])
    output = found["output.log"].decode()
    assert output.startswith("learned\n")  # MLflow's client prints where to look
    assert found["weights.txt"] == b"0.5"
    assert b"learning" in found["spans.jsonl"]
    assert site.logs(run).output == output
    assert json.loads(site.logs(run, "--json").output)["output"] == output

    way.cut()
    alone = site.run("print('alone')")
    assert "MLflow does not keep artifacts" in site.messages[-1] + site.messages[-2]
    assert not kept(store, alone["mlflow_run_id"])
    assert isinstance(site.logs(alone).exception, TrackingUnavailable)
    way.open()
    site.run("")
    assert kept(store, alone["mlflow_run_id"])["output.log"] == b"alone\n"
    assert site.logs(alone).output == "alone\n"


def test_a_store_that_is_away_is_no_reason_not_to_start(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.variables(f"http://127.0.0.1:{free_port()}").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrackingUnavailable, match="does not answer"):
        require_store("s3://runs/lab")


@pytest.mark.parametrize(
    ("destination", "changed", "message"),
    [
        ("s3://runs", {"AWS_SECRET_ACCESS_KEY": "hunter2"}, "refuses AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://runs", {"AWS_ACCESS_KEY_ID": "hunter2"}, "refuses AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://runs", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "there are no keys for the store"),
        ("s3://absent/lab", {}, "has no bucket 'absent'"),
        ("s3:///lab", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("s3://ann:hunter2@runs", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("gs://runs", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("s3://runs", {"MLFLOW_S3_ENDPOINT_URL": "nowhere"}, "cannot be checked: ValueError"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_without_its_keys(
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    destination: str,
    changed: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in (store.variables() | changed).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadRequest) as refused:
        require_store(destination)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert store.secret not in str(refused.value)


def test_boto3_is_required_where_it_is_needed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    require_store("/srv/artifacts")
    with pytest.raises(BadRequest, match=r"need boto3: pip install 'hypergauge\[s3\]'"):
        require_store("s3://runs")
