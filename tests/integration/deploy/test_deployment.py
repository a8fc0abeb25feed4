"""Services of docker-compose.yml, run on a real server with its roles and passwords, in both flavours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from mlflow import MlflowClient
from psycopg import conninfo, sql

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import free_port
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.migrate import MigrationFailed
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.programs import Programs
from hypergauge.sql.server.reader import cancel_long_reads
from hypergauge.sql.server.replica import replication
from hypergauge.sql.transfer.backup import backup
from hypergauge.sql.transfer.restore import restore
from tests.conftest import NewFolder
from tests.support.cluster.compose import passwords
from tests.support.cluster.site import COMPOSE, Site
from tests.support.collector.process import Collecting, group
from tests.support.servers.databases import own_server
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours

# In a process of its own: MLflow's migration may emit warnings.
LOGGING = """
import sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
run = client.create_run(client.create_experiment("kept"))
client.log_metric(run.info.run_id, "loss", 0.5)
print(run.info.run_id)
"""


@pytest.fixture
def site(flavour: Flavour, new_folder: NewFolder, tmp_path: Path) -> Iterator[Site]:
    with own_server(flavour, new_folder() / "site") as server:
        (server.folder / "data" / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("select pg_reload_conf()")
            admin.execute("create database bench")
        made = Site(server, tmp_path)
        if flavour is Flavour.TIMESCALEDB:  # the image does so
            with psycopg.connect(made.admin, autocommit=True) as connection:
                connection.execute("create extension if not exists timescaledb")
        yield made


def test_from_nothing_to_a_chart_with_least_rights(site: Site, tmp_path: Path) -> None:
    site.administer()
    site.administer()  # at each start
    site.database("owner").open().close()
    site.administer()

    writer = site.database("writer").open()
    with writer.connect() as connection:
        world = World(writer, tmp_path / "spool", connection)
        start = time.time() // 10 * 10 - 600
        run_id = world.run(start, start + 300)
        world.write(world.gauge("node_load1", [start + at for at in range(300)], [1.5] * 300))
        for statement in (
            "drop table bench.runs",
            "create table bench.mine ()",
            "create schema mine",
            "table mlflow.runs",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)):
                connection.execute(statement.encode())

    with site.reader() as reader:
        rows = reader.execute(
            "select avg(value) from run_chart(array[%s], array['load'], null, null, 1000, false, 40)", (run_id,)
        ).fetchall()
        assert rows == [(1.5,)]
        for statement in (
            "delete from runs",
            "create table mine ()",
            "select * from pg_authid",
            "create temp table mine ()",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
                reader.execute(statement.encode())
        reader.execute("set default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("delete from runs")
        assert reader.execute("show statement_timeout").fetchone() == ("30s",)
        jit = reader.execute("select setting, source from pg_settings where name = 'jit'").fetchone()
        assert jit == ("off", "database"), "by roles.sql: the owner of the schema does not own the database"


def test_a_personal_login_is_bounded_by_owner_and_writer_without_a_superuser(site: Site) -> None:
    site.administer()
    with psycopg.connect(site.admin, autocommit=True) as admin:
        admin.execute("create role ann login password 'secret' in role bench_reader")
    site.administer()
    site.database("owner").open().close()
    dsn = conninfo.make_conninfo(site.dsn("reader"), user="ann", password="secret")
    with psycopg.connect(dsn, autocommit=True) as ann, site.database("writer").open().connect() as writer:
        assert ann.execute("show statement_timeout").fetchone() == ("30s",)
        for statement in ("select pg_advisory_lock(1)", "select lo_creat(-1)"):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
                ann.execute(statement.encode())
        ann.execute("begin")
        ann.execute("select 1")
        wait_for(lambda: cancel_long_reads(writer, 0.1), "the end of an idle transaction")
        with pytest.raises(psycopg.OperationalError):
            ann.execute("select 1")


def test_the_transactions_of_the_service_rest_read_every_relation(site: Site, tmp_path: Path) -> None:
    """The statements are those of https://docs.postgrest.org/en/v14/references/transactions.html."""
    site.administer()
    writer = site.database("owner").open()
    with writer.connect() as connection:
        world = World(writer, tmp_path / "spool", connection)
        start = time.time() // 60 * 60 - 600  # a bin is a minute
        run_id = world.run(start, start + 300)
        world.write(world.gauge("node_load1", [start + at for at in range(300)], [1.5] * 300))
    settings = COMPOSE["services"]["rest"]["environment"]
    path = f"{settings['PGRST_DB_SCHEMAS']},{settings['PGRST_DB_EXTRA_SEARCH_PATH']}"
    with site.reader() as rest:

        def get(main_query: str, *values: object) -> list[Any]:
            with rest.transaction():
                rest.execute("set transaction read only")
                given = (path, settings["PGRST_DB_ANON_ROLE"])
                rest.execute("select set_config('search_path', %s, true), set_config('role', %s, true)", given)
                body = f"select coalesce(json_agg(_postgrest_t), '[]') from ({main_query}) _postgrest_t"
                return list(rest.execute(body.encode(), values).fetchall()[0][0])

        relations = get(
            "select relname as name from pg_class where relnamespace = 'bench'::regnamespace and relkind in ('r', 'v', 'p')"
        )
        assert {"runs", "run_samples", "run_summary", "profile_entries"} <= {one["name"] for one in relations}
        for relation in relations:
            get(f"select * from bench.{relation['name']} limit 5")
        assert get("select status from bench.runs where run_id = %s", run_id) == [{"status": "finished"}]
        points = get(
            "select * from bench.run_chart(runs => %s, quantities => '{load}', start => null, stop => null, "
            "step_ms => 60000, aligned => true, max_series => 40)",
            [run_id],
        )
        assert [point["value"] for point in points] == [1.5] * 5


@pytest.mark.slow
def test_users_have_logins_of_their_own(site: Site, tmp_path: Path) -> None:
    site.administer()
    site.database("owner").open().close()
    with psycopg.connect(site.admin, autocommit=True) as admin:
        admin.execute("create role test_ann login password 'ann' in role bench_writer")
        admin.execute("create role test_ben login password 'ben' in role bench_reader_own")
    ann = conninfo.make_conninfo(site.dsn("writer"), user="test_ann", password="ann")
    with Database(Settings(home=tmp_path, dsn=ann)) as database, database.connect() as connection:
        world = World(database, tmp_path / "spool", connection)
        runs = [world.run(time.time() - 60, position=position) for position in (1, 2)]
        connection.execute("update runs set owner = 'test_ben' where run_id = %s", (runs[1],))
    ben = conninfo.make_conninfo(site.dsn("writer"), user="test_ben", password="ben")
    with psycopg.connect(ben, options="-csearch_path=bench_own,bench,bench_internal", autocommit=True) as connection:
        assert connection.execute("select run_id from runs").fetchall() == [(runs[1],)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from bench.runs")


@pytest.mark.slow
def test_a_password_is_required_and_can_be_changed(site: Site) -> None:
    site.administer()
    for role in ("bench_owner", "bench_writer", "bench_reader", "bench_reader_own", "mlflow"):
        for password in ("", "wrong"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(site.dsn("writer"), user=role, password=password)
    site.administer({**passwords(), "BENCH_WRITER_PASSWORD": "another"})
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(site.dsn("writer"))
    psycopg.connect(site.dsn("writer"), password="another").close()


def test_the_error_without_rights_on_the_schema_names_the_owner(site: Site) -> None:
    site.administer()
    with pytest.raises(MigrationFailed, match=r"bench_writer may not change it .* run `bench db migrate` as its owner"):
        site.database("writer").open()
    site.database("owner").open().close()
    with psycopg.connect(site.admin) as admin:
        admin.execute("update bench_internal.functions_digest set digest = 'of another release'")
    with pytest.raises(MigrationFailed, match="run `bench db migrate` as its owner"):
        site.database("writer").open()


@pytest.mark.parametrize("flavour", [Flavour.TIMESCALEDB], indirect=True, ids=["timescaledb"])
def test_timescaledbs_jobs_run_as_the_owner(site: Site) -> None:
    site.administer()
    site.database("owner").open().close()
    with psycopg.connect(site.admin, autocommit=True) as admin:
        jobs = admin.execute(
            "select job_id, owner::text from timescaledb_information.jobs where job_id >= 1000"
        ).fetchall()
        assert jobs
        assert {owner for _, owner in jobs} == {"bench_owner"}
        admin.execute("set session authorization bench_owner")
        for job_id, _ in jobs:
            admin.execute("call run_job(%s)", (job_id,))


@pytest.mark.slow
def test_the_collector_writes_as_the_writer(site: Site, tmp_path: Path) -> None:
    site.administer()
    site.database("owner").open().close()
    port = free_port()
    words = [*COMPOSE["services"]["host"]["command"][:-1], str(port)]
    exporter = subprocess.Popen(
        [sys.executable, "-P", "-m", "hypergauge.cli", *words],
        env={**os.environ, "BENCH_HOME": str(tmp_path / "exporter")}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([group(f"127.0.0.1:{port}", job="host")]))
    try:
        with Collecting(site.dsn("writer"), tmp_path / "collector", targets) as collecting, site.reader() as reader:
            query = "select count(*) from samples join series using (series_id) where quantity = 'memory_available'"
            wait_for(lambda: reader.execute(query).fetchone() != (0,), "a sample")
            collecting.stop()
    finally:
        exporter.terminate()
        exporter.wait()


@pytest.mark.slow
@pytest.mark.parametrize("flavour", [Flavour.TIMESCALEDB], indirect=True, ids=["timescaledb"])
def test_mlflow_uses_its_schema_and_is_part_of_a_backup(site: Site, tmp_path: Path) -> None:
    site.administer()
    site.database("owner").open().close()
    done = subprocess.run([sys.executable, "-c", LOGGING, store(site)], stdout=subprocess.PIPE, text=True, check=True)
    run_id = done.stdout.split()[-1]
    with psycopg.connect(site.admin, autocommit=True) as admin:
        tables = """
            select schemaname, tableowner from pg_tables
            where tablename in ('experiments', 'metrics', 'runs') and schemaname in ('bench', 'mlflow')
            """
        assert set(admin.execute(tables).fetchall()) == {("bench", "bench_owner"), ("mlflow", "mlflow")}
        backup(site.database("owner"), tmp_path / "file")
        admin.execute("drop schema mlflow cascade")
        admin.execute("create schema mlflow authorization mlflow")
    restore(site.database("owner"), tmp_path / "file")
    with mlflow(site, tmp_path) as uri:  # it migrates its tables at each start, so it must own them
        client = MlflowClient(uri)
        assert client.get_run(run_id).data.metrics == {"loss": 0.5}
        assert client.create_experiment("another")
    with psycopg.connect(site.admin, autocommit=True) as admin:
        assert set(admin.execute(tables).fetchall()) == {("bench", "bench_owner"), ("mlflow", "mlflow")}


@pytest.mark.slow
@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_a_replica_connects_by_password_and_is_rebuilt_after_a_long_absence(site: Site, tmp_path: Path) -> None:
    site.administer()
    site.database("owner").open().close()
    hba = tmp_path / "pg_hba.conf"
    hba.write_text(f"{COMPOSE['configs']['hba']['content']}local replication bench_replica scram-sha-256\n")
    with psycopg.connect(site.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("alter system set hba_file = {}").format(str(hba)))
        admin.execute("alter system set max_slot_wal_keep_size = '16MB'")
    site.server.stop("fast")
    site.server.start()
    with psycopg.connect(site.admin, autocommit=True) as admin:
        row = admin.execute("select setting from pg_config where name = 'BINDIR'").fetchone()
        assert row is not None
        copy = Copy(site, Programs(folder=Path(row[0])), tmp_path / "18" / "copy", hba)
        admin.execute("select pg_create_physical_replication_slot('replica')")  # of an earlier copy
        with copy as reads, Database(reads, reading=True) as database, database.session() as connection:
            assert replication(connection).describe() == "a replica, 0 s behind"
        for _ in range(4):
            admin.execute("create table if not exists filler as select 1; grant select on filler to public")
            admin.execute("insert into filler values (1)")
            admin.execute("select pg_switch_wal()")
        admin.execute("checkpoint")
        assert admin.execute("select wal_status from pg_replication_slots").fetchall() == [("lost",)]
        shutil.rmtree(copy.data)
        copy.data.with_name(f"{copy.data.name}.unfinished").mkdir()  # as after an interrupted copy
        with copy as reads, Database(reads, reading=True) as database, database.session() as connection:
            assert connection.execute("select count(*) from filler").fetchone() == (5,)


class Copy:
    """The service ``replica``, with its own command."""

    def __init__(self, site: Site, programs: Programs, data: Path, hba: Path) -> None:
        self.site, self.programs, self.data = site, programs, data
        self.sockets = site.server.folder / "copy"
        self.sockets.mkdir()
        primary = conninfo.conninfo_to_dict(site.admin)["host"]
        words = COMPOSE["services"]["replica"]["command"][0]
        for before, after in {
            "/run/secrets": site.folder / "secrets", "/tmp/passwords": site.folder / "pgpass", "-h database": f"-h {primary}",
            "/etc/bench/pg_hba.conf": hba, "exec postgres": f"exec postgres -c listen_addresses= -k {self.sockets}",
        }.items():  # fmt: skip
            assert before in words
            words = words.replace(before, str(after))
        self._words = f"export PATH={programs.folder}:$PATH PGDATA={data}; {words}"

    def __enter__(self) -> Settings:
        # Only root may write to root's file.
        (self.site.folder / "pgpass").unlink(missing_ok=True)
        self._thread = threading.Thread(target=self.programs.run, args=("/bin/sh", "-ec", self._words), daemon=True)
        self._thread.start()
        password = passwords()["BENCH_READER_PASSWORD"]
        dsn = conninfo.make_conninfo(
            dbname="bench", user="bench_reader", password=password, host=str(self.sockets), port=5432
        )
        wait_for(lambda: self.data.exists() and _answers(dsn), "the replica")
        return Settings(home=self.site.folder / "reads", read_dsn=dsn)

    def __exit__(self, *_: object) -> None:
        self.programs.stop(self.data)
        self._thread.join(HUNG_SECONDS)


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def store(site: Site) -> str:
    """Return the content of MLflow's file, with the host of this server."""
    where = conninfo.conninfo_to_dict(site.server.dsn)
    return f"{COMPOSE['configs']['mlflow']['content'].replace('@database/', '@/')}&host={where['host']}"


class mlflow:  # noqa: N801 - it is used as a function
    """Run MLflow's server with the command and variables of its service."""

    def __init__(self, site: Site, folder: Path) -> None:
        service: dict[str, Any] = COMPOSE["services"]["mlflow"]
        port = free_port()
        self.uri = f"http://127.0.0.1:{port}"
        words = service["command"][0].split("exec ", 1)[1].replace("0.0.0.0", "127.0.0.1").replace("5000", str(port))
        words = words.replace("/var/lib/bench", str(folder / "mlflow"))
        environment = {**os.environ, **service["environment"], "MLFLOW_BACKEND_STORE_URI": store(site)}
        self.log = folder / "mlflow.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words.split()], env=environment, stdout=log, stderr=log, cwd=folder
            )

    def __enter__(self) -> str:
        def answers() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).close()
            except OSError:
                return False
            return True

        wait_for(answers, "MLflow")
        return self.uri

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(HUNG_SECONDS)
