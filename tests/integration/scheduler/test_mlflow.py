"""An MLflow server that is away, slow or requires a login: runs continue, and arrive once."""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient
from psycopg.rows import dict_row

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import inventory
from hypergauge.scheduler.events import Event
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.requests.single_run import run_command
from hypergauge.scheduler.supervision import is_supervised
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.server.database import Database
from tests.conftest import own_database
from tests.support.servers.mlflow import Proxy, mlflow_server
from tests.support.waiting import wait_for

SCRIPTS = Path(__file__).parents[2] / "data" / "scripts"
PASSWORD = "pass%40word"
LOGIN = f"user:{PASSWORD.replace('%40', '@')}"
LOGGING = """
import os
os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
import mlflow
mlflow.log_metric("loss", 0.5, step=3)
print("logged")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real server."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as port:
        yield port


@pytest.fixture
def proxy(server: int) -> Iterator[Proxy]:
    """The running proxy of the server."""
    made = Proxy(server)
    made.start()
    yield made
    made.stop()


@dataclass
class Lab:
    """A database, a home, and the server behind a proxy."""

    settings: Settings
    database: Database
    client: MlflowClient
    events: list[Event] = field(default_factory=list)

    def run(
        self, uri: str, *words: str, when: Callable[[Event], None] | None = None, waits: bool = True
    ) -> dict[str, Any]:
        """Run a command to its end, and return it as the database has it; `when` receives the events."""

        def report(event: Event) -> None:
            self.events.append(event)
            if when is not None:
                when(event)

        executor = LocalExecutor(self.database, self.settings, Tracking(uri), inventory(None), report)
        job = job_from_command(words, name="short", devices=None)
        _, [outcome] = run_command(executor, job, waits=waits)
        return self.row(outcome.run_id)

    def python(
        self, uri: str, script: str, when: Callable[[Event], None] | None = None, waits: bool = True
    ) -> dict[str, Any]:
        words = [sys.executable, "-c", script, "--rate", "0.1", "--odd@name", "1"]
        return self.run(uri, *words, when=when, waits=waits)

    def row(self, run_id: str) -> dict[str, Any]:
        with psycopg.connect(
            self.database.dsn, row_factory=dict_row, options="-csearch_path=bench,bench_internal,bench_dashboard,public"
        ) as connection:
            found = connection.execute("select * from runs where run_id = %s", (run_id,)).fetchone()
            assert found is not None
            metrics = connection.execute("select key, step, value from software_metrics where run_id = %s", (run_id,))
            return {**found, "metrics": [tuple(row.values()) for row in metrics.fetchall()]}

    def known(self, run_id: str) -> list[Run]:
        """Return what MLflow has of a run of ours."""
        experiments = [one.experiment_id for one in self.client.search_experiments()]
        return list(self.client.search_runs(experiments, f"tags.`hypergauge.run_id` = '{run_id}'"))

    def warnings(self) -> str:
        return "\n".join(event.message for event in self.events if event.kind == "warning")

    def assert_complete(self, run_id: str, output: str) -> Run:
        """Return what MLflow has of a run: once, as it was, and with all it has left."""
        row, [known] = self.row(run_id), self.known(run_id)
        assert row["mlflow_run_id"] == known.info.run_id
        assert known.info.status == "FINISHED"
        assert known.info.end_time == int(row["ended_at"].timestamp() * 1000)
        assert known.data.params["rate"] == "0.1"
        assert set(known.data.params) == {"c", "rate"}  # MLflow takes no "@" in a name
        assert known.data.tags["hypergauge.status"] == "finished"
        assert known.data.tags["hypergauge.run"] == known.info.run_name.split()[0] + "@1"
        path = self.client.download_artifacts(known.info.run_id, "output.log")
        assert Path(path).read_text() == output
        return known


@pytest.fixture
def lab(postgresql_dsn: str, server: int, tmp_path: Path) -> Iterator[Lab]:
    with own_database(postgresql_dsn, timescaledb=False) as dsn:
        settings = Settings(home=tmp_path / "home", dsn=dsn)
        with Database(settings) as database:
            yield Lab(settings, database, MlflowClient(f"http://127.0.0.1:{server}"))


@pytest.mark.slow
def test_a_server_that_is_away_gets_the_run_when_it_is_back(lab: Lab, proxy: Proxy) -> None:
    proxy.stop()
    began = time.monotonic()
    run = lab.python(proxy.url, "print('alone')")
    assert time.monotonic() - began < 120  # MLflow itself would try for more than five minutes
    assert (run["status"], run["mlflow_run_id"]) == ("finished", None)
    assert "MLflow does not answer; the runs continue, and MLflow gets them later" in lab.warnings()
    proxy.start()
    lab.python(proxy.url, "print('next')")
    known = lab.assert_complete(run["run_id"], "alone\n")
    assert known.info.start_time == int(run["started_at"].timestamp() * 1000)


def test_a_slow_server_does_not_hold_up_a_run(lab: Lab, proxy: Proxy) -> None:
    proxy.delay = 2.5  # three answers until a run is open

    def recover(event: Event) -> None:
        if event.kind == "started":
            proxy.delay = 0.0

    began = time.time()
    run = lab.python(proxy.url, "print('slow')", when=recover)
    assert run["started_at"].timestamp() - began < 120
    lab.assert_complete(run["run_id"], "slow\n")


def test_what_a_server_has_missed_of_a_run_is_delivered_later(lab: Lab, proxy: Proxy) -> None:
    def leave(event: Event) -> None:
        if event.kind == "started":
            [known] = lab.known(event.run_id)
            lab.client.log_metric(known.info.run_id, "loss", 0.25, step=7)
            proxy.stop()

    run = lab.python(proxy.url, "print('left')", when=leave)
    assert run["status"] == "finished"
    assert lab.known(run["run_id"])[0].info.status == "RUNNING"
    assert "the next schedule of this experiment delivers the run" in lab.warnings()
    proxy.start()
    lab.python(proxy.url, "print('next')")
    lab.assert_complete(run["run_id"], "left\n")
    assert lab.row(run["run_id"])["metrics"] == [("loss", 7, 0.25)]


def test_a_run_is_over_before_mlflow_has_what_it_left(lab: Lab, proxy: Proxy) -> None:
    def hang(event: Event) -> None:
        if event.kind == "started":
            proxy.gate.clear()

    script = "import time; time.sleep(1); print('left')"
    try:
        run = lab.python(proxy.url, script, when=hang, waits=False)
        folder = RunFolder(lab.settings.runs_dir / run["run_id"])
        assert (run["status"], run["exit_code"], folder.delivered) == ("finished", 0, False)
        assert lab.known(run["run_id"])[0].info.status == "RUNNING"
    finally:
        proxy.gate.set()
    wait_for(lambda: folder.delivered, "the delivery")
    lab.assert_complete(run["run_id"], "left\n")
    wait_for(lambda: not is_supervised(folder), "the supervisor's end")


def test_a_supervisor_delivers_what_earlier_runs_could_not(lab: Lab, proxy: Proxy) -> None:
    proxy.stop()
    run = lab.python(proxy.url, "print('alone')", waits=False)
    folder = RunFolder(lab.settings.runs_dir / run["run_id"])
    wait_for(lambda: not is_supervised(folder), "the supervisor's end")
    assert not folder.delivered
    proxy.start()
    lab.python(proxy.url, "print('next')", waits=False)
    wait_for(lambda: folder.delivered, "the delivery")
    lab.assert_complete(run["run_id"], "alone\n")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["variables", "file", "address"])
def test_a_login_is_used_by_us_and_by_runs_and_recorded_nowhere(
    lab: Lab, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    user, password = LOGIN.split(":")
    uri, proxy.login = proxy.url, LOGIN
    if where == "address":
        uri = uri.replace("://", f"://{user}:{PASSWORD}@")
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
    if where == "file":
        (tmp_path / "secret").write_text(f"{password}\n")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD_FILE", str(tmp_path / "secret"))
        monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    shown: list[str] = []

    def look(event: Event) -> None:
        if event.kind == "started":
            shown.extend(" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))

    script = LOGGING if where == "variables" else "print('logged')"
    run = lab.python(uri, script, when=look)
    assert (run["status"], lab.warnings()) == ("finished", "")
    lab.assert_complete(run["run_id"], "logged\n")
    assert run["metrics"] == ([("loss", 3, 0.5)] if where == "variables" else [])
    kept = [path.read_text(errors="replace") for path in lab.settings.home.rglob("*") if path.is_file()]
    for secret in (password, PASSWORD):
        assert not [text for text in [*shown, *kept, str(run), str(lab.events)] if secret in text]


def test_a_wrong_login_is_reported_without_it_and_the_run_continues(
    lab: Lab, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.login = LOGIN
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    run = lab.python(proxy.url.replace("://", "://mallory:guess@"), "print('alone')")
    assert run["status"] == "finished"
    assert "401" in lab.warnings()
    assert "guess" not in lab.warnings()


def delete_experiment(lab: Lab, run: dict[str, Any]) -> str:
    """Delete the experiment of a run in MLflow; return its id there."""
    [known] = lab.known(run["run_id"])
    lab.client.delete_experiment(known.info.experiment_id)
    return str(known.info.experiment_id)


@pytest.fixture
def restored(lab: Lab) -> Iterator[None]:
    """Restore deleted experiments at the end, since other tests use them."""
    yield
    for experiment in lab.client.search_experiments(view_type=ViewType.DELETED_ONLY):
        lab.client.restore_experiment(experiment.experiment_id)


@pytest.mark.usefixtures("restored")
def test_a_deleted_experiment_is_named_and_replaced(lab: Lab, server: int) -> None:
    uri = f"http://127.0.0.1:{server}"
    first = lab.python(uri, LOGGING)
    for number in (2, 3):
        lab.events.clear()
        deleted = delete_experiment(lab, first)
        first = lab.python(uri, LOGGING)
        assert (first["status"], first["metrics"]) == ("finished", [("loss", 3, 0.5)])
        known = lab.assert_complete(first["run_id"], "logged\n")
        assert lab.client.get_experiment(known.info.experiment_id).name.endswith(f"bench run ({number})")
        assert f"mlflow experiments restore -x {deleted if number == 2 else ''}" in lab.warnings()
    script = "import mlflow, os; assert 'MLFLOW_RUN_ID' not in os.environ or mlflow.active_run() is None; mlflow.log_metric('q', 1)"
    assert lab.python(uri, script)["status"] == "finished"


@pytest.mark.usefixtures("restored")
def test_a_run_whose_experiment_is_deleted_meanwhile_arrives_once_it_is_restored(lab: Lab, server: int) -> None:
    uri, deleted = f"http://127.0.0.1:{server}", []

    def delete(event: Event) -> None:
        if event.kind == "started":
            deleted.append(delete_experiment(lab, {"run_id": event.run_id}))

    run = lab.python(uri, "print('left')", when=delete)
    assert f"mlflow experiments restore -x {deleted[0]}" in lab.warnings()
    assert "tries again to deliver the run" in lab.warnings()
    lab.client.restore_experiment(deleted[0])
    lab.python(uri, "print('next')")
    lab.assert_complete(run["run_id"], "left\n")


@pytest.mark.parametrize(
    ("more", "params"),
    [
        (["x" * 10_000], 3),
        (["--long", "x" * 9000], 3),
        ([f"--{'x' * 300}", "3"], 3),
        ([f"--p{number}=1" for number in range(300)], 302),
        (["--note", "caf\udce9"], 3),
    ],
    ids=["command", "value", "name", "parameters", "not UTF-8"],
)
def test_what_is_too_long_for_mlflow_is_cut(lab: Lab, server: int, more: list[str], params: int) -> None:
    run = lab.run(f"http://127.0.0.1:{server}", sys.executable, "-c", "print('left')", "--rate", "0.1", *more)
    assert (run["status"], lab.warnings()) == ("finished", "")
    [known] = lab.known(run["run_id"])
    assert (known.info.run_id, known.info.status) == (run["mlflow_run_id"], "FINISHED")
    assert known.data.params["rate"] == "0.1"
    assert len(known.data.params) == params
    assert len(known.data.tags["hypergauge.command"]) <= 8000


def test_long_names_are_cut(server: int) -> None:
    tracking, client = Tracking(f"http://127.0.0.1:{server}"), MlflowClient(f"http://127.0.0.1:{server}")
    for experiment in ("e" * 600, "e\0\udce9"):
        name, params = "n" * 600, {"p" * 400: "v" * 9000, "a": "\0"}
        mlflow_run_id = tracking.create_run("0" * 32, experiment, name, params, {"t" * 400: "v" * 9000})
        known = client.get_run(mlflow_run_id)
        assert known.info.run_name == "n" * 249 + "…"
        assert {len(key): len(value) for key, value in known.data.params.items()} == {250: 6000, 1: 0}
        assert known.data.tags["t" * 250] == "v" * 7999 + "…"
        variables = tracking.variables("0" * 32, None, experiment, [], Path("/"))
        assert client.get_experiment(known.info.experiment_id).name == variables["MLFLOW_EXPERIMENT_NAME"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@host:5000/x", "https://host:5000/x"),
        ("https://user:p@ss@host", "https://host"),
        ("postgresql://u:p@h/d", "postgresql://h/d"),
        ("https://host/a@b", "https://host/a@b"),
        ("request to http://u:p@h/api failed: me@there", "request to http://h/api failed: me@there"),
        ("sqlite:///a/b.db", "sqlite:///a/b.db"),
    ],
)
def test_addresses_are_shown_without_their_logins(text: str, shown: str) -> None:
    assert without_login(text) == shown


@pytest.mark.parametrize("installed", [True, False], ids=["with radt", "without it"])
@pytest.mark.parametrize("how", ["context", "module"])
def test_a_script_written_for_radt_loses_no_metric(
    lab: Lab, server: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, installed: bool
) -> None:
    words = [sys.executable, str(SCRIPTS / "for_radt.py"), how]
    packages = sysconfig.get_path("purelib")
    if installed:
        pytest.importorskip("radt", reason="radt is not installed: the group `dev` has it")
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        others = [path for path in Path(packages).iterdir() if not path.name.startswith("radt")]
        links = tmp_path / "packages"
        links.mkdir()
        for path in others:
            (links / path.name).symlink_to(path)
        monkeypatch.setenv("PYTHONPATH", str(links))
        words.insert(1, "-S")
    run = lab.run(f"http://127.0.0.1:{server}", *words)
    output = RunFolder(lab.settings.runs_dir / run["run_id"]).output.read_text()
    assert run["status"] == "finished", output
    assert (f"{packages}/radt/" in output) == installed
    logged = [
        (key, epoch, value) for epoch in range(3) for key, value in (("Metric A", epoch / 2), ("loss", 1 - epoch / 4))
    ]
    assert sorted(run["metrics"]) == sorted(logged)
    [known] = lab.known(run["run_id"])
    assert (known.info.run_id, known.info.status) == (run["mlflow_run_id"], "FINISHED")
    assert known.data.metrics == {"Metric A": 1.0, "loss": 0.5}
    assert known.data.params.get("optimizer") == ("sgd" if how == "context" else None)
