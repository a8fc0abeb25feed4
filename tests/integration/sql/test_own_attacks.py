"""Attacks of a user who sees only own runs: they learn that others exist, and no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from hypergauge.core.config.settings import Settings
from hypergauge.sql.queries.neighbours import neighbour_changes
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.schemas import OURS
from hypergauge.sql.server.database import Database
from tests.conftest import own_database
from tests.support.people import as_person, login
from tests.support.world import World

pytestmark = pytest.mark.flavours

# In every text of the other person's runs, and a value that only they have.
SECRET, VALUE = "zebra", 1234.5
# Errors of a server where a role lacks rights: a view that cannot be written, a chunk that cannot be read by itself.
CLOSED = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.DataCorrupted,
)
GPU = "GPU-00000000-0000-4000-8000-000000000000"


class Shared:
    """Two people's runs on one GPU; `ann` may see her own alone."""

    def __init__(self, database: Database, folder: Path, ann: str, *, timescaledb: bool) -> None:
        self.database, self.ann, self.timescaledb = database, ann, timescaledb
        with database.connect() as owner:
            # A server on which others need temporary objects may give them to everybody.
            owner.execute(sql.SQL("grant temporary on database {} to public").format(sql.Identifier(owner.info.dbname)))
            world = World(database, folder / "spool", owner)
            start = float(time.time() // 600 * 600 - 4 * 86_400)
            self.mine = world.run(start, start + 100, gpu=GPU)
            self.theirs = world.run(
                start + 40, start + 300, experiment=66, gpu=GPU, name=f"{SECRET}-net", command=SECRET
            )
            owner.execute(
                "update runs set owner = case run_id when %(mine)s then %(ann)s else %(secret)s end, reason = name,"
                " note = name, environment = name, params = jsonb_build_object(name, name) where run_id in (%(mine)s, %(theirs)s)",
                {"mine": self.mine, "theirs": self.theirs, "ann": ann, "secret": SECRET},
            )
            owner.execute("update experiments set name = %(s)s, source = %(s)s where experiment_id = 66", {"s": SECRET})
            for run, word, value in ((self.mine, "own", 1.0), (self.theirs, SECRET, VALUE)):
                owner.execute(
                    """
                    insert into software_metrics values (%(r)s, %(w)s, 1, now(), 1, %(v)s);
                    insert into spans (run_id, span_id, name, kind, started_at, thread) values (%(r)s, %(w)s, %(w)s, 'phase', now(), %(w)s);
                    insert into tensor_sets values (%(r)s, %(w)s, %(w)s, array[%(w)s], array[1]);
                    insert into tensor_steps (run_id, tensor_set, step, time, norm, l2)
                    values (%(r)s, %(w)s, 1, now(), %(v)s, array[%(v)s]);
                    insert into tensor_problems values (%(r)s, %(w)s);
                    insert into highlights values (%(r)s, now(), now(), %(w)s, %(w)s, %(v)s);
                    insert into rule_firings values (%(r)s, %(w)s, now(), null, %(w)s, jsonb_build_object(%(w)s, %(w)s));
                    insert into rule_actions (run_id, rule, started_at, action, severity, evidence)
                    values (%(r)s, %(w)s, now(), %(w)s, %(w)s, jsonb_build_object(%(w)s, %(w)s))
                    """.replace("%(r)s", f"'{run}'").replace("%(w)s", f"'{word}'").replace("%(v)s", str(value)).encode()
                )  # fmt: skip
            times = [start + at for at in range(300)]
            alone = [value for at in range(300) for value in [1.0 if at < 100 else VALUE]]
            world.write(
                world.gauge(
                    "bench_gpu_power_watts", times, alone, {"UUID": GPU, "gpu": "0", "hpc_job": SECRET}, "nvml"
                ),
                world.gauge("something_else", times, alone, {"what": SECRET}),
                world.gauge("bench_process_threads", times, [VALUE] * 300, {"run_id": self.theirs, "what": SECRET}),
                world.gauge("bench_process_threads", times[:100], [2.0] * 100, {"run_id": self.mine}),
            )
            owner.execute("select summarise(run_id) from runs")
            world.refresh()
            owner.execute("create schema mlflow; create table mlflow.runs as select 'zebra'::text as name")
            owner.execute("analyze")

    def log_in(
        self, path: str = "bench_own, bench, bench_internal, bench_dashboard, public"
    ) -> closing[psycopg.Connection]:
        """Connect as ann."""
        return closing(as_person(self.database.dsn, self.ann, path))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Flavour.POSTGRESQL, id="postgresql"),
        pytest.param(Flavour.TIMESCALEDB, id="timescaledb", marks=pytest.mark.timescale),
    ],
)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Two people's runs on one GPU, in each flavour."""
    timescaledb, folder = request.param is Flavour.TIMESCALEDB, tmp_path_factory.mktemp("shared")
    server = request.getfixturevalue(f"{request.param}_dsn")
    with (
        own_database(server, timescaledb=timescaledb) as dsn,
        Database(Settings(home=folder, dsn=dsn)) as database,
        login(dsn, "bench_reader_own") as ann,
    ):
        if timescaledb:
            with database.connect() as connection:
                connection.execute("select alter_job(job_id, scheduled => false) from timescaledb_information.jobs")
        yield Shared(database, folder, ann, timescaledb=timescaledb)


def refused(connection: psycopg.Connection, statement: str, *values: object) -> None:
    with pytest.raises(CLOSED):
        connection.execute(statement.encode(), values)


def test_no_relation_of_any_schema_gives_anything_away(shared: Shared) -> None:
    with shared.database.connect() as other, shared.log_in() as ann:
        other.execute(f"select '{SECRET}'".encode())  # in pg_stat_activity
        names = other.execute(
            "select nspname, relname from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in ('r', 'v', 'm', 'p')"
        ).fetchall()
        read = set()
        for schema, name in names:
            statement = sql.SQL("select x::text from {} x limit 20000").format(sql.Identifier(schema, name))
            try:
                rows = ann.execute(statement).fetchall()
            except CLOSED:
                continue
            read.add((schema, name))
            for (row,) in rows:
                for word in (SECRET, str(VALUE), shared.theirs):
                    assert word not in row, f"{schema}.{name}: {row}"
        open_ = {name for schema, name in read if schema in OURS}
        assert open_ == {"metrics", "retention", "migrations", "functions_digest", "gpu_peaks"}
        assert {name for schema, name in read if schema == "bench_own"} >= {"runs", "samples", "samples_10s", "series"}
        if shared.timescaledb:
            assert not any(name.startswith(("_hyper", "compress_hyper", "_materialized")) for _, name in read)


FUNCTIONS = [
    "run_card(%(run)s)", "run_notice(%(run)s, null, now())", "run_neighbours(%(mine)s)", "run_neighbours(%(run)s)",
    "run_titles(array[%(run)s])", "workload_titles(%(workloads)s)", "run_summary_of(array[%(run)s], '{gpu_power,process_threads}')",
    "summary_between(%(run)s, null, null)", "compute_summary(%(run)s)", "run_phases(%(run)s, '-infinity', 'infinity')",
    "run_logged(%(run)s, array['zebra'], '-infinity', 'infinity', 1000)", "duplicate_series(array[%(run)s], null)", "run_sources(array[%(run)s], null)",
    "ranked_sources(array_fill('x'::text, array[50]), array(select generate_series(1, 50)), array_fill(1::float8, array[50]))",
    "device_label(%(run)s)", "fleet()", "fleet_hosts()", "fleet_runs()", "occupancy(now() - interval '9 days', now())",
    "series_chart('{gpu_power,something_else}', now() - interval '9 days', now(), 1000)",
    "series_steps(array(select generate_series(1, 50)), now() - interval '9 days', now(), 1000)",
    "newest(array(select generate_series(1, 50)), '{gpu_power,something_else}', now() - interval '9 days')",
    "run_chart(array[%(run)s, %(mine)s], '{gpu_power,something_else}', null, null, 1000, false, 40, '{process,instance}')",
    "run_chart(array[%(run)s], '{gpu_power}', null, null, 60000, true, 40)",
    "run_devices_chart(%(run)s, 'gpu_power', null, null, 1000)",
    "workload_chart(%(workloads)s, '{gpu_power}', null, null, 1000, true, 40)",
    "chart_notice(array[%(run)s], '{gpu_power}')", "run_listeners(array[%(run)s])", "last_sign_of_life(%(run)s)",
    "chosen_experiments('{66,newest}')", "bench_own.mine()", "chart_firings(array[%(run)s, %(mine)s])",
    "throughput(%(run)s)", "device_peaks(%(run)s)", "not_finite(array[%(run)s])",
]  # fmt: skip


def test_no_function_answers_for_others(shared: Shared) -> None:
    with shared.log_in() as ann:
        for call in FUNCTIONS:
            rows = ann.execute(
                f"select x::text from {call} x".encode(),
                {"run": shared.theirs, "mine": shared.mine, "workloads": list(range(1, 20))},
            ).fetchall()
            result = " ".join(str(row) for row in rows)
            for word in (SECRET, str(VALUE), shared.theirs):
                assert word not in result, call
        refused(ann, "select end_run(%s, 'failed', now(), 1, null)", shared.mine)
        refused(ann, "insert into runs select * from runs")
        refused(ann, "update runs set keep = true")
        refused(ann, "delete from samples")


def test_that_there_is_a_neighbour_is_all_that_is_known_of_one(shared: Shared) -> None:
    with shared.log_in() as ann:
        marks = ann.execute("select run_id, shared from run_flags").fetchall()
        assert marks == [(shared.mine, True)]
        others = ann.execute(
            "select distinct others from run_sets join places using (place_id) where kind = 'gpu'"
        ).fetchall()
        assert sorted(others) == [(0,), (1,)]
        [change] = neighbour_changes(ann, [shared.mine])[shared.mine]
        assert (change.run, change.what) == ("another run", "began")


LEAK = """
create function pg_temp.leak(anyelement) returns boolean language plpgsql cost 0.0000001 as
$$begin raise notice 'leaked %', $1; return true; end$$
"""


@pytest.mark.parametrize(
    "relation", ["runs", "software_metrics", "spans", "samples", "samples_10s", "run_samples", "series", "tensor_stats"]
)
def test_a_function_in_a_condition_sees_own_rows_alone(shared: Shared, relation: str) -> None:
    seen: list[str] = []
    with shared.log_in() as ann:
        ann.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
        ann.execute(LEAK)
        ann.execute(f"select count(*) from {relation} x where pg_temp.leak(x::text)".encode())
        value = {
            "samples": "value", "samples_10s": "max", "run_samples": "value", "software_metrics": "value", "tensor_stats": "l2",
        }.get(relation)  # fmt: skip
        if value:
            ann.execute(f"select count(*) from {relation} x where pg_temp.leak({value})".encode())
            # An error is one bit of another user's row.
            ann.execute(f"select count(*) from {relation} where 1 / (({value})::numeric - {VALUE}) > 9".encode())
    assert seen
    assert not [line for line in seen if SECRET in line or str(VALUE) in line or shared.theirs in line]


GUESSES = {
    "runs": ("name = 'zebra-net'", "name = 'tiger-net'"),
    "experiments": ("name = 'zebra'", "name = 'tiger'"),
    "software_metrics": (f"key = 'zebra' and value > {VALUE - 1}", f"key = 'tiger' and value > {VALUE + 1}"),
    "spans": ("name = 'zebra'", "name = 'tiger'"),
    "tensor_stats": ("name = 'zebra'", "name = 'tiger'"),
    "tensor_steps": (f"norm > {VALUE - 1}", f"norm > {VALUE + 1}"),
    "highlights": ("text = 'zebra'", "text = 'tiger'"),
    "samples": (f"value > {VALUE - 1}", f"value > {VALUE + 1}"),
    "samples_10s": (f"max > {VALUE - 1}", f"max > {VALUE + 1}"),
    "samples_1m": (f"area > {VALUE - 1}", f"area > {VALUE + 100_000}"),
    "run_summary": (f"max > {VALUE - 1}", f"max > {VALUE + 1}"),
}


def test_plans_do_not_reveal_a_right_guess(shared: Shared) -> None:
    if shared.timescaledb:
        with shared.database.connect() as owner:
            owner.execute("call maintain()")
    with shared.log_in() as ann:
        for relation, guesses in GUESSES.items():
            plans = []
            for guess in guesses:
                rows = ann.execute(
                    f"explain (analyze, timing off, summary off, buffers off) select * from {relation} where {guess}".encode()
                ).fetchall()
                plans.append(
                    [line for (line,) in rows if not line.strip().startswith(("Filter", "Planning", "Heap Fetches"))]
                )
            assert plans[0] == plans[1], relation


def test_what_is_made_under_our_names_is_not_found_by_what_runs_with_more_rights(shared: Shared) -> None:
    with shared.log_in("pg_temp, bench_own, bench, bench_internal, bench_dashboard, public") as ann:
        ann.execute("create temp table runs as select * from bench_own.runs")
        ann.execute("insert into runs (run_id, owner) values (%s, session_user)", (shared.theirs,))
        ann.execute("create temp table retention (keep_raw interval, raw_cutoff timestamptz)")
        ann.execute(
            "create temp table run_sets as select n as runset_id, p as place_id, %s::text as run_id, 'instance'::text as scope,"
            " null::timestamptz as started_at, null::timestamptz as ended_at, 0 as others"
            " from generate_series(1, 20) n, generate_series(1, 20) p", (shared.mine,),
        )  # fmt: skip
        ann.execute(
            "create function pg_temp.chart_bound(timestamptz, timestamptz, boolean, timestamptz) returns timestamptz"
            " language plpgsql as $$begin raise exception 'found'; end$$"
        )
        assert ann.execute("select bench_own.mine()").fetchall() == [(shared.mine,)]
        rows = ann.execute(
            "select max(value) from bench_own.run_chart(array[%s, %s], '{gpu_power}', null, null, 1000, false, 40)",
            (shared.mine, shared.theirs),
        ).fetchall()
        assert rows == [(1.0,)]
        assert ann.execute("select max(value) from bench_own.samples").fetchall() == [(2.0,)]


def test_no_role_becomes_another(shared: Shared) -> None:
    with shared.log_in() as ann:
        for role in ("bench_reader", "bench_writer", "bench_owner", "mlflow", SECRET):
            refused(ann, f"set role {role}")
        refused(ann, "set session authorization bench_reader")
        refused(ann, "grant bench_reader to current_user")
        ann.execute("set role bench_reader_own")
        assert ann.execute("select run_id from runs").fetchall() == [(shared.mine,)], "the login counts"
        ann.execute("reset role")
        refused(ann, "create view public.mine as select 1")
        refused(ann, "create function bench_own.run_label(text) returns text language sql as 'select $1'")
        refused(ann, "select cancel_long_reads('0 s')")
    for path in ("bench", "pg_temp, bench", "mlflow, public"):
        closed = (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)
        with shared.log_in(path) as ann, pytest.raises(closed):
            ann.execute("select * from runs")


def test_whose_role_was_granted_sees_as_that_one(shared: Shared) -> None:
    with shared.database.connect() as owner, login(shared.database.dsn, "bench_reader_own") as lead:
        owner.execute(sql.SQL("grant {} to {}").format(sql.Identifier(shared.ann), sql.Identifier(lead)))
        with closing(as_person(shared.database.dsn, lead)) as connection:
            assert connection.execute("select run_id from runs").fetchall() == [(shared.mine,)]
        owner.execute(sql.SQL("revoke {} from {}").format(sql.Identifier(shared.ann), sql.Identifier(lead)))
