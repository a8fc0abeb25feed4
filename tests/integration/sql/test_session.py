"""Sessions: they survive lost connections, and keep their locks or report the loss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.sql.runs.experiments import being_scheduled, lock_experiment
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server import session as module
from hypergauge.sql.server.database import Connection, Database, StatementFailed
from hypergauge.sql.server.session import Session
from tests.conftest import NewFolder
from tests.support.servers.databases import OwnServer, own_server
from tests.support.waiting import HUNG_SECONDS, wait_for


@pytest.fixture(scope="module")
def server(new_folder: NewFolder) -> Iterator[OwnServer]:
    """A server that one may restart; which flavour it has is no matter here."""
    with own_server(Flavour.POSTGRESQL, new_folder() / "session") as server:
        yield server


@pytest.fixture
def database(server: OwnServer, tmp_path: Path) -> Database:
    return Database(Settings(home=tmp_path, dsn=server.dsn)).open()


def one(connection: Connection) -> int:
    row = connection.execute("select 1").fetchone()
    assert row is not None
    return int(row[0])


def pid(connection: Connection) -> int:
    return connection.info.backend_pid


def end_backend(database: Database, process: int) -> None:
    with database.connect() as other:
        other.execute("select pg_terminate_backend(%s)", (process,))
        wait_for(
            lambda: not other.execute("select 1 from pg_stat_activity where pid = %s", (process,)).fetchone(), "its end"
        )


def test_it_outlives_its_connection(database: Database) -> None:
    with Session(database) as session:
        first = session(pid)
        end_backend(database, first)
        assert session(one) == 1
        assert session(pid) != first


def test_it_waits_for_a_server_that_is_started_again(
    server: OwnServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.0)
    messages: list[str] = []
    with Session(database, notify=messages.append) as session, ThreadPoolExecutor(1) as pool:
        session(one)
        server.stop("fast")
        try:
            pending = pool.submit(session, one)
            wait_for(lambda: messages, "a message")
        finally:
            server.start()
        assert pending.result(HUNG_SECONDS) == 1
    assert messages[0].startswith("the database is unreachable; waiting for it: ")
    assert messages[1:] == ["the database is back"]


def test_it_waits_for_a_standby_to_be_promoted(database: Database) -> None:
    tries: list[int] = []

    def write(connection: Connection) -> None:
        tries.append(pid(connection))
        connection.execute("create temp table made (x integer)")

    with Session(database) as session:
        session(lambda connection: connection.execute("set default_transaction_read_only = on"))  # as in a standby
        session(write)
    assert len(set(tries)) == 2, "the next connection finds one that takes it"


def test_a_deadlock_costs_neither_connection_nor_locks(database: Database) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> int:
        tries.append(pid(connection))
        if len(tries) == 1:
            connection.execute("do $$ begin raise exception using errcode = 'deadlock_detected'; end $$")
        return one(connection)

    with Session(database) as session:
        assert session(work) == 1
    assert len(tries) == 2
    assert len(set(tries)) == 1


def test_what_is_refused_is_not_tried_again(database: Database) -> None:
    tries: list[int] = []

    def wrong(connection: Connection) -> None:
        tries.append(1)
        connection.execute("select no_such_column")

    with Session(database) as session, pytest.raises(StatementFailed, match="no_such_column"):
        session(wrong)
    assert tries == [1]


def test_its_timeout_ends_it(server: OwnServer, database: Database) -> None:
    with Session(database, timeout=0) as session:
        server.stop("fast")
        try:
            with pytest.raises(DatabaseUnavailable):
                session(one)
            with pytest.raises(DatabaseUnavailable, match="does not answer"), Session(database):
                pass
        finally:
            server.start()
        assert session(one) == 1


def test_its_locks_are_taken_again(server: OwnServer, database: Database) -> None:
    with Session(database) as session, database.connect() as watching:
        session.lock(partial(lock_experiment, experiment=7))
        session.lock(partial(lock_experiment, experiment=8))
        end_backend(database, session(pid))
        session(one)
        assert being_scheduled(watching, 7)
        assert being_scheduled(watching, 8)
        with Session(database) as other, pytest.raises(BadRequest, match="being scheduled by another command"):
            other.lock(partial(lock_experiment, experiment=7))
    with database.connect() as watching:
        assert not being_scheduled(watching, 7)


def test_its_locks_are_free_when_it_is_closed(database: Database) -> None:
    for _ in range(20):
        with Session(database) as session:
            session.lock(partial(lock_experiment, experiment=20))


def test_the_lock_of_a_connection_that_its_server_has_not_missed_is_its_own(database: Database) -> None:
    with Session(database) as session:
        session.lock(partial(lock_experiment, experiment=7))
        before = session._connection  # it stays open there, as where the network is lost
        assert before is not None
        session._connection = None
        assert session(pid) != before.info.backend_pid
        with pytest.raises(psycopg.OperationalError):
            before.execute("select 1")


def test_a_lock_that_another_process_holds_by_now_ends_it_with_a_message(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.2)
    with Session(database) as session, Session(database) as other:
        session.lock(partial(lock_experiment, experiment=7))
        end_backend(database, session(pid))
        other.lock(partial(lock_experiment, experiment=7))
        began = time.monotonic()
        with pytest.raises(BadRequest, match="experiment 7 is being scheduled by another command"):
            session(one)
        assert time.monotonic() - began >= 0.2
