"""Outages of the database: schedules, supervisors and leases survive them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.home import Home, Sheet, Started, processes_of
from tests.support.servers.databases import OwnServer, own_server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.flavours

HEADER = "Experiment,Workload,Name,Status,Run,File,Params"


class Away(Home):
    """A home with a database server that one may stop."""

    server: OwnServer

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "BENCH_DSN": self.server.dsn, "BENCH_LEASE": "3"}

    def gates(self, experiment: int) -> tuple[Sheet, list[Path]]:
        """Return a file with two workloads of a run each, and what the runs wait for."""
        gates = [self.folder / f"gate-{experiment}-{number}" for number in (1, 2)]
        rows = [f"{experiment},{number},run,,,{{scripts}}/gate.py,{gate}" for number, gate in enumerate(gates, 1)]
        return self.sheet(f"away-{experiment}", HEADER, rows), gates

    def statement(self, text: str) -> None:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only = off")
            connection.execute(text.encode())

    def end_connections(self) -> None:
        self.statement(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="module", params=[Flavour.POSTGRESQL, Flavour.TIMESCALEDB], ids=str)
def home(request: pytest.FixtureRequest, new_folder: NewFolder) -> Iterator[Away]:
    folder = new_folder()
    with own_server(request.param, folder / "server") as server:
        home = Away(folder / "home", folder / "work")
        home.server = server
        with home.stack():
            yield home


def ends(home: Home, experiment: int) -> list[tuple[str, int | None]]:
    return [(run["status"], run["exit_code"]) for run in home.runs(experiment)]


def test_a_restart_of_the_server_during_a_run(home: Away) -> None:
    sheet, (first, second) = home.gates(1)
    schedule = home.start("schedule", sheet.path)
    [run] = home.running(1)
    home.server.stop("immediate")
    try:
        first.touch()
        wait_for(lambda: not processes_of(run["run_id"]), "its end without the database")
    finally:
        home.server.start()
    wait_for(lambda: ends(home, 1)[:1] == [("finished", 0)], "its stored end")
    home.running(1)
    second.touch()
    schedule.wait()
    assert ends(home, 1) == [("finished", 0)] * 2
    assert sheet.column("Status") == ["finished"] * 2


def test_a_lost_connection_keeps_the_experiment_its_own(home: Away) -> None:
    sheet, gates = home.gates(2)
    schedule = home.start("schedule", sheet.path)
    home.running(2)
    home.end_connections()
    gates[0].touch()
    wait_for(lambda: len(home.runs(2)) == 2 and home.running(2), "the second workload")
    assert "being scheduled by another command" in home.bench("schedule", sheet.path, status=2)
    gates[1].touch()
    schedule.wait()
    assert ends(home, 2) == [("finished", 0)] * 2


def test_a_database_that_takes_nothing_for_longer_than_a_lease(home: Away) -> None:
    sheet, gates = home.gates(3)
    schedule = home.start("schedule", sheet.path)
    [run] = home.running(3)
    home.statement("alter database postgres set default_transaction_read_only = on")
    home.end_connections()
    try:
        for gate in gates:
            gate.touch()
        wait_for(lambda: not processes_of(run["run_id"]), "its end, while it cannot be recorded")
        with psycopg.connect(home.server.dsn) as connection:
            connection.execute("select pg_sleep(5)")  # a lease is over
    finally:
        home.statement("alter database postgres set default_transaction_read_only = off")
        home.end_connections()
    schedule.wait()
    assert ends(home, 3) == [("finished", 0)] * 2
    assert sheet.column("Status") == ["finished"] * 2


def test_an_end_that_the_database_refuses_is_recorded_when_it_does_not(home: Away) -> None:
    sheet, gates = home.gates(4)
    schedule = home.start("schedule", sheet.path)
    [run] = home.running(4)
    ends_by = "alter function bench_internal.{}(text, text, timestamptz, integer, text) rename to {}"
    home.statement(ends_by.format("end_run", "missing"))  # as in the middle of a manual repair
    try:
        gates[0].touch()
        assert "end_run" in schedule.wait(status=1), "a refusal is no outage: the schedule reports it"
        wait_for(lambda: (home.path / "runs" / run["run_id"] / "end.json").exists(), "its end, beside it")
    finally:
        home.statement(ends_by.format("missing", "end_run"))
    wait_for(lambda: ends(home, 4) == [("finished", 0)], "its end, recorded by its supervisor")


def test_a_schedule_that_starts_without_its_database_waits_for_it(home: Away) -> None:
    sheet, gates = home.gates(5)
    for gate in gates:
        gate.touch()
    home.server.stop("fast")
    try:
        assert "does not answer" in home.bench("schedule", sheet.path, "--dry-run", status=1), "it only reads"
        assert "does not answer" in home.bench("list", status=1)
        schedule, interrupted = home.start("schedule", sheet.path), home.start("schedule", sheet.path)
        for started in (schedule, interrupted):
            wait_for(partial(waits_for_the_database, started), "its message")
        interrupted.interrupt()
        interrupted.wait(status=1)
    finally:
        home.server.start()
    assert schedule.wait().count("the database is back") == 1
    assert ends(home, 5) == [("finished", 0)] * 2


def waits_for_the_database(schedule: Started) -> bool:
    assert schedule.process.poll() is None, schedule.output.read_text()
    return "waiting for it" in schedule.output.read_text()


def test_a_schedule_does_not_wait_for_a_server_that_refuses_it(home: Away) -> None:
    sheet, _ = home.gates(6)
    other = Home(home.path, home.folder, {"BENCH_DSN": f"{home.server.dsn}&dbname=nothing"})
    assert 'database "nothing" does not exist' in other.bench("schedule", sheet.path, status=1)
