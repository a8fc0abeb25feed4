"""Users who see only their own runs: commands, dashboards and Python answer them as everybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from psycopg import conninfo

from benchmarks.support import grafana
from hypergauge.core.config.settings import Settings
from hypergauge.sql.runs.calibrations import Calibration, store_calibrations
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import Command, own_database
from tests.integration.dashboards.test_dashboards import BOARDS, choose, spans
from tests.support.data.answers import run_query
from tests.support.data.gallery import hang
from tests.support.people import as_person, login

Bench = Callable[..., Any]
Lab = tuple[str, str]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Flavour.POSTGRESQL, id="postgresql"),
        pytest.param(Flavour.TIMESCALEDB, id="timescaledb", marks=pytest.mark.timescale),
    ],
)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A database, and a user who may see no runs but the first of each workload of experiments 20 and 21."""
    timescaledb = request.param is Flavour.TIMESCALEDB
    folder = tmp_path_factory.mktemp("lab")
    server = request.getfixturevalue(f"{request.param}_dsn")
    with (
        own_database(server, timescaledb=timescaledb) as dsn,
        Database(Settings(home=folder, dsn=dsn)) as database,
        database.connect() as connection,
        login(dsn, "bench_reader_own") as ann,
    ):
        if timescaledb:
            connection.execute("select alter_job(job_id, scheduled => false) from timescaledb_information.jobs")
        hang(database, folder / "spool", 8, interval=5.0)
        connection.execute(
            "update runs set owner = case when experiment_id in (20, 21) and position = 1 then %s else 'ben' end"
            " from workloads w where w.workload_id = runs.workload_id", (ann,),
        )  # fmt: skip
        yield dsn, ann


@pytest.fixture
def bench(command: Command, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give the command, as a user or, without a name, as everybody."""
    dsn, _ = lab
    monkeypatch.setenv("BENCH_HOME", str(tmp_path))

    def run(name: str | None, *words: str, status: int = 0) -> Any:
        monkeypatch.setenv("BENCH_DSN", conninfo.make_conninfo(dsn, user=name) if name else dsn)
        ended, out, error = command(*words)
        assert ended == status, error + out
        if "--json" in words and not status:
            # In which order values are added is the planner's affair, and with it their last digits.
            return json.loads(out, parse_float=lambda text: float(f"{float(text):.12g}"))
        return " ".join((out + error).split())

    return run


def test_own_runs_are_read_where_queries_have_a_server_of_their_own(
    lab: Lab, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, ann = lab
    own = bench(ann, "list", "20", "--json")
    monkeypatch.setenv("BENCH_READ_DSN", conninfo.make_conninfo(dsn, user=ann))
    assert bench(None, "list", "20", "--json") == own


@pytest.mark.parametrize(
    "words",
    [
        "list 20/1",
        "compare 20/1 20/2",
        "compare 20/1 20/2 --by workload --align epoch",
        "metrics 20/1",
        "highlights 20/1/1",
        "plot 20/1 20/2 -m gpu_power -m loss -o a.svg",
        "plot 20/1 20/2 -m cpu_usage --by workload --align step -o a.svg",
        "plot 20/1 20/2 -m gpu_power -m loss --from 10 --to 30 -o a.svg",
        "plot 20/1 20/2 -m cpu_usage --by workload --to 30 -o a.svg",
        "plot 20/1 20/2 -m cpu_usage --kind bars --to 30 -o a.svg",
        "export 20/1 -o a.parquet",
        "export 20/1 --from 10 --to 30 -o a.csv",
        "export 20/1 --trace -o a.json",
        "export 20/1 -o a.capsule",
        "report 20/1 20/2 -o a.html",
        "report 20/1 20/2 --from 10 --to 30 -o a.html",
        "share 20/1 -m gpu_power -o a-view.json",
        "rules replay 20/1",
    ],
)
def test_own_runs_are_answered_for_as_they_are_to_everybody(lab: Lab, bench: Bench, tmp_path: Path, words: str) -> None:
    answers = []
    for who in (lab[1], None):
        answers.append(bench(who, *words.split(), "--json"))
        for file in tmp_path.glob("a*.*"):
            file.unlink()
    assert answers[0] == answers[1]


def test_others_are_nowhere_but_that_there_were_some(lab: Lab, bench: Bench) -> None:
    _, ann = lab
    assert [one["experiment_id"] for one in bench(ann, "list", "--json")] == [20, 21]
    assert {run["owner"] for run in bench(ann, "list", "20", "--json")} == {ann}
    assert "20/3/2 names no run; there are the runs 20/3/1" in bench(ann, "list", "20/3/2", status=2)
    assert "22 names no run; existing experiments: 20, 21" in bench(ann, "compare", "22", status=2)
    shared = bench(ann, "compare", "20/3", "--json")
    assert [run["shared"] for run in shared["quality"]] == [True]
    assert "another run used the GPU of 20/3/1" in bench(ann, "interference", "20", status=1)


def test_calibrations_of_own_hosts_are_known_without_the_command(lab: Lab, tmp_path: Path) -> None:
    """It is another user's."""
    dsn, ann = lab
    with Database(Settings(home=tmp_path, dsn=dsn)) as database, database.session() as connection:
        hosts = [host for (host,) in connection.execute("select distinct host from runs where owner = %s", (ann,))]
        store_calibrations(
            connection,
            [
                Calibration(host, "secret.py", "", {"host": 1.0}, 4, 0.0, -0.01, 0.01, 0.01, 1e8)
                for host in (*hosts, "n9")
            ],
        )
    with closing(as_person(dsn, ann)) as person:
        found = person.execute("select host, command, repetitions from calibrations order by host").fetchall()
    assert found == [(host, "", 4) for host in sorted(hosts)]


def test_what_is_not_for_readers_is_refused_in_words(lab: Lab, bench: Bench, tmp_path: Path) -> None:
    _, ann = lab
    assert f"{ann} may not do this in the database" in bench(ann, "rules", "replay", "20", "--store", status=1)


@pytest.mark.parametrize("uid", sorted(BOARDS.keys() - {"bench-pipeline"}))
def test_dashboards_show_own_runs(lab: Lab, uid: str) -> None:
    board = BOARDS[uid]
    with closing(as_person(*lab)) as connection:
        for query in grafana.queries(board, choose(connection, board, "all"), spans(board)):
            answer = run_query(connection, query)
            assert "ben" not in {value for row in answer.rows for value in row}, query.where
