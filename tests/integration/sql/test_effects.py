"""Functions with an effect that a role may execute: readers have none beyond their own session, in both flavours."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.migrate import migrate
from hypergauge.sql.server.database import Database
from tests.support.people import login

pytestmark = pytest.mark.flavours

# Servers whose functions were reviewed for the lists below.
REVIEWED = {15, 18}
VOLATILE = """
    select distinct n.nspname || '.' || p.proname from pg_proc p join pg_namespace n on n.oid = pronamespace
    where provolatile = 'v' and prokind in ('f', 'p') and has_function_privilege(%s, p.oid, 'execute')
      and has_schema_privilege(%s, n.oid, 'usage')
      and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype, 'index_am_handler'::regtype,
                             'table_am_handler'::regtype, 'language_handler'::regtype)
    order by 1
"""
# They read, or change what belongs to the session alone.
WITHOUT_EFFECT = r"""
    pg_catalog.(amvalidate|array_sample|array_shuffle|bernoulli|system|clock_timestamp|timeofday|random(_normal)?|setseed|set_config)
    pg_catalog.(gen_random_uuid|uuidv[47]|current_query|currval|lastval|currtid2?|cursor_to_xml(schema)?|query_to_xml.*|ts_(rewrite|stat))
    pg_catalog.(dsnowball_.*|plpgsql_.*|fmgr_.*_validator|lo_(close|get|lseek|lseek64|tell|tell64|open)|loread|pg_sleep.*)
    pg_catalog.pg_(.*_size|available_.*|blocking_pids|safe_snapshot_blocking_pids|.*collation_actual_version|control_.*)
    pg_catalog.pg_(current_wal_.*|last_.*|is_.*|get_.*|partition_.*|prepared_xact|lock_status|jit_available|xact_.*)
    pg_catalog.pg_(wal_summary_contents|notification_queue_usage|isolation_test_session_is_blocked|export_snapshot|sequence_last_value)
    pg_catalog.(pg_stat_(get|clear|force)_.*|txid_status|pg_extension_config_dump|pg_stop_making_pinned_objects)
    pg_catalog.pg_(nextoid|import_system_collations)
    bench(_own)?.(replica_behind|my_places|sets|run_chart|workload_chart|mine)
    bench_internal.(lock_waits|replica_notice)
    public.(.*_size|approximate_row_count|by_hash|by_range|generate_uuidv7|to_uuidv7|interpolate|locf|show_.*|time_bucket_gapfill)
    timescaledb_experimental.show_policies
"""
# They check the rights of their caller on what they change.
CHECKED = r"""
    pg_catalog.(binary_upgrade_.*|brin_.*|gin_clean_pending_list|lo_(put|truncate|truncate64|unlink)|lowrite|nextval|setval)
    pg_catalog.pg_(cancel_backend|terminate_backend|.*_replication_slot|replication_slot_advance|logical_slot_.*|sync_replication_slots)
    pg_catalog.pg_((clear|restore)_(attribute|relation)_stats|read_file_old|rotate_logfile_old)
    bench_internal.(begin_write|end_write|divide|end_run|end_lost_run|maintain|open_series|place|raise_watermark|rebuild_run_sets)
    bench_internal.(refresh|retag|retain|summarise(_before)?|unpack|write_below_cutoff|pack(_series)?|delete_unused_scrapes|store_.*)
    public.((add|remove)_.*|alter_job|delete_job|run_job|attach_.*|detach_.*|compress_chunk|decompress_chunk|convert_to_.*|drop_chunks)
    public.(create_hypertable|(dis|en)able_chunk_skipping|merge_chunks.*|move_chunk|recompress_chunk|refresh_continuous_aggregate)
    public.(reorder_chunk|set_.*|split_chunk|timescaledb_(pre|post)_restore)
    timescaledb_experimental.*
    # They are no part of a user's path, and check the owner of the hypertable, or that the caller is a superuser.
    _timescaledb_(functions|internal).*
"""
# The first fills the server's queue of notifications, which nothing of ours uses. The second writes to the log of the server, and
# its parameters differ between versions, so pg_upgrade would fail on a right to it.
ACCEPTED = "pg_catalog.pg_(notify|logical_emit_message)"


@pytest.fixture
def fresh(database: Database) -> Database:
    """A database with the rights of a migration: a copy of a template has those of the server."""
    with database.session() as connection:
        connection.execute("delete from functions_digest")
        migrate(connection)
        if (version := connection.info.server_version // 10000) not in REVIEWED:
            pytest.skip(f"the functions of PostgreSQL {version} are not reviewed yet")
    return database


@pytest.fixture(params=["bench_reader", "bench_reader_own"])
def ann(fresh: Database, request: pytest.FixtureRequest) -> Iterator[str]:
    """A login in each reading role."""
    with login(fresh.dsn, request.param) as name:
        yield name


def patterns(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def test_a_reader_executes_nothing_with_an_effect(fresh: Database, ann: str) -> None:
    with fresh.session() as connection:
        names = [name for (name,) in connection.execute(VOLATILE, (ann, ann)).fetchall()]
    assert len(names) > 50
    reviewed = "|".join((*patterns(WITHOUT_EFFECT), *patterns(CHECKED), ACCEPTED))
    assert [name for name in names if not re.fullmatch(reviewed, name)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "select lo_from_bytea(0, decode(repeat('00', 100), 'hex'))",
        "select lo_creat(-1)",
        "select lo_create(0)",
        "create temporary table mine as select 1 as x",
        "create table public.mine ()",
        "select pg_advisory_lock(1)",
        "select pg_try_advisory_xact_lock_shared(1, 2)",
        "select bench_internal.open_series(1, '[]')",
        "call bench_internal.retain()",
    ],
)
def test_what_has_an_effect_is_refused_to_a_reader(fresh: Database, ann: str, statement: str) -> None:
    with psycopg.connect(fresh.dsn, user=ann, autocommit=True) as session:
        session.execute("set default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            session.execute(statement.encode())


@pytest.mark.parametrize(
    "statement",
    [
        "select add_job('bench_internal.refresh', '1 s')",
        "select delete_job(job_id) from timescaledb_information.jobs",
        "do 'declare job integer := min(job_id) from timescaledb_information.jobs; begin call run_job(job); end'",
        "select _timescaledb_functions.stop_background_workers()",
        "select drop_chunks('bench.samples', now())",
        "call refresh_continuous_aggregate('bench.samples_10s', null, null)",
        "select add_retention_policy('bench.samples', interval '1 day')",
    ],
)
def test_a_reader_has_no_job(fresh: Database, ann: str, flavour: Flavour, statement: str) -> None:
    if flavour is Flavour.POSTGRESQL:
        pytest.skip("plain PostgreSQL has no jobs")
    with psycopg.connect(fresh.dsn, user=ann, autocommit=True) as session:
        session.execute("set default_transaction_read_only = off")
        with pytest.raises((errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState)):
            session.execute(statement.encode())
