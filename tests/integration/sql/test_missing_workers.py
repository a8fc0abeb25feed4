"""Servers with too few workers for TimescaleDB's jobs: the setting to change is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from benchmarks.support.servers import installed_timescale
from hypergauge.core.config.settings import Settings
from hypergauge.sql.maintenance.background import failing_jobs
from hypergauge.sql.maintenance.tuning import costly_settings
from hypergauge.sql.server.database import Database
from tests.conftest import HOW_TO_GET_ONE, Command, NewFolder, own_database, running
from tests.support.servers.settings import settings_to_change
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.flavours, pytest.mark.timescale]


@pytest.fixture
def cramped(new_folder: NewFolder) -> Iterator[str]:
    """A TimescaleDB with room for few locks, and a slot for its scheduler and for none of the scheduler's jobs."""
    few = "max_locks_per_transaction = 40\nmax_connections = 20\nmax_worker_processes = 3\nfsync = off\n"
    if (server := installed_timescale(new_folder() / "cramped", configuration=few, stock=True)) is None:
        pytest.skip(HOW_TO_GET_ONE)
    with running(server) as dsn:
        yield dsn


def test_a_setting_that_is_too_small_is_named(
    cramped: str, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with own_database(cramped, timescaledb=True) as dsn:
        with Database(Settings(home=tmp_path, dsn=dsn)) as database, database.session() as connection:
            connection.execute(
                "select public.alter_job(job_id, retry_period => interval '10 ms', next_start => now())"
                " from timescaledb_information.jobs"
            )
            wait_for(lambda: failing_jobs(connection), "jobs that cannot start")
        monkeypatch.setenv("BENCH_DSN", dsn)
        monkeypatch.setenv("BENCH_HOME", str(tmp_path))
        assert settings_to_change(command) == {"max_locks_per_transaction", "max_worker_processes"}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_worker_processes", 2),  # PostgreSQL's launcher and TimescaleDB's, and no scheduler
        ("timescaledb.max_background_workers", 1),  # the launcher, and no scheduler
        ("timescaledb.max_background_workers", 2),  # the launcher and a scheduler, and no job
    ],
)
def test_jobs_that_wait_in_vain_are_named(
    setting: str, value: int, new_folder: NewFolder, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = f"{setting} = {value}\ntimescaledb.bgw_launcher_poll_time = 100\nfsync = off\n"
    if (server := installed_timescale(new_folder() / "few", configuration=few, stock=True)) is None:
        pytest.skip(HOW_TO_GET_ONE)
    with running(server) as dsn, own_database(dsn, timescaledb=True) as own:
        with Database(Settings(home=tmp_path, dsn=own)) as database, database.session() as connection:
            [found] = wait_for(lambda: costly_settings(connection), "jobs that are due and do not start")
            assert (found.setting, found.value) == (setting, str(value))
            assert failing_jobs(connection) == [], "no job even tried"
            connection.execute("alter role bench_reader_own login")
            with psycopg.connect(own, user="bench_reader_own", autocommit=True) as reader:
                assert costly_settings(reader) == [found]
            # Without a due job there is nothing to name.
            connection.execute("select public.alter_job(job_id, scheduled => false) from timescaledb_information.jobs")
            assert costly_settings(connection) == []
            connection.execute("select public.alter_job(job_id, scheduled => true) from timescaledb_information.jobs")
        monkeypatch.setenv("BENCH_DSN", own)
        monkeypatch.setenv("BENCH_HOME", str(tmp_path))
        assert settings_to_change(command) == {setting}


def test_a_stopped_scheduler_is_named(new_folder: NewFolder, tmp_path: Path) -> None:
    polling = "timescaledb.bgw_launcher_poll_time = 100\n"
    if (server := installed_timescale(new_folder() / "stopped", configuration=polling)) is None:
        pytest.skip(HOW_TO_GET_ONE)
    with running(server) as dsn, own_database(dsn, timescaledb=True) as own:
        settings = Settings(home=tmp_path, dsn=own)
        with Database(settings) as database, database.session() as connection:
            wait_for(lambda: not costly_settings(connection), "the first scheduler")
            connection.execute("select _timescaledb_functions.stop_background_workers()")
            connection.execute("select public.alter_job(job_id, next_start => now()) from timescaledb_information.jobs")
            [found] = wait_for(lambda: costly_settings(connection), "jobs that are due")
            assert "select _timescaledb_functions.start_background_workers()" in found.remedy
            connection.execute("select _timescaledb_functions.start_background_workers()")
            wait_for(lambda: not costly_settings(connection), "the next scheduler")
            connection.execute("select public.timescaledb_pre_restore()")
            connection.execute("select public.alter_job(job_id, next_start => now()) from timescaledb_information.jobs")
        # A new connection has the setting of the database.
        with Database(settings) as database, database.session() as connection:
            [found] = wait_for(lambda: costly_settings(connection), "jobs that are due during a restore")
            assert found.setting == "timescaledb.restoring"
