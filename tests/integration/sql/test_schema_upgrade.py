"""Upgrades of an older schema, whose functions and views have other columns and parameters, and interrupted ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, errors

from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema import migrate as module
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.migrate import MigrationFailed, migrate, newest
from hypergauge.sql.server.database import Connection, Database
from tests.conftest import own_database
from tests.support.people import login

pytestmark = pytest.mark.flavours

OLDER = 6
OURS = "('bench', 'bench_internal', 'bench_dashboard', 'bench_own')"
# Of each routine: another result, other names of parameters, and beside it one with more parameters.
ROUTINES = f"""
    select format('create %1$s %2$I.%3$I(%4$s) %5$s language sql as ''select 1''',
                  case prokind when 'p' then 'procedure' else 'function' end, nspname, proname, arguments,
                  case prokind when 'p' then '' else 'returns table (former integer)' end)
    from (select p.*, nspname, (select coalesce(string_agg(format('former_%s %s', ordinality, format_type(type, null)), ', '), '')
                                from unnest(proargtypes) with ordinality as types(type, ordinality)) as arguments
          from pg_proc p join pg_namespace n on n.oid = pronamespace
          where nspname in {OURS} and prorettype <> 'trigger'::regtype) routines
"""
VIEWS = f"""
    select format('create view %I.%I as select 1 as former, 2 as another', schemaname, viewname)
    from pg_views where schemaname in {OURS} and viewname not in ('samples_10s', 'samples_1m', 'samples_10m')
"""
DEFINITIONS = f"""
    select p.oid::regprocedure::text, pg_get_functiondef(p.oid), proacl::text
    from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname in {OURS}
    union all
    select c.oid::regclass::text, pg_get_viewdef(c.oid), relacl::text
    from pg_class c join pg_namespace n on n.oid = relnamespace where relkind = 'v' and nspname in {OURS}
    union all
    select tgname, pg_get_triggerdef(t.oid), ''
    from pg_trigger t join pg_class c on c.oid = tgrelid join pg_namespace n on n.oid = relnamespace
    where not tgisinternal and nspname in {OURS}
    order by 1, 2
"""


def definitions(connection: Connection) -> list[tuple[str, str, str | None]]:
    """Return everything that function files make, with its rights in order."""
    rows = connection.execute(DEFINITIONS).fetchall()
    return [(name, text, rights and "".join(sorted(rights))) for name, text, rights in rows]


@pytest.fixture
def older(database: Database, flavour: Flavour, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database whose tables, functions and views are those of an older release."""
    with database.session() as connection:
        former = [text for query in (VIEWS, ROUTINES) for (text,) in connection.execute(query).fetchall()]
    server = request.getfixturevalue(f"{flavour}_dsn")
    with own_database(server, timescaledb=flavour is Flavour.TIMESCALEDB) as dsn:
        opened = Database(Settings(home=database.settings.home, dsn=dsn))
        with opened.session() as connection:
            migrate(connection, to=OLDER)
            connection.execute("create schema bench_own")
            for statement in former:
                with contextlib.suppress(errors.DuplicateTable):  # a table of the older release
                    connection.execute(statement.encode())
            connection.execute("insert into bench.experiments (experiment_id, name, source) values (1, 'kept', '')")
        yield opened


def check(older: Database, database: Database) -> None:
    """Check that an upgraded database has the schema of a new one, and kept its rows."""
    with older.session() as upgraded, database.session() as new:
        assert definitions(upgraded) == definitions(new)
        assert upgraded.execute("select name from bench.experiments").fetchall() == [("kept",)]
        row = upgraded.execute("select max(version) from bench_internal.migrations").fetchone()
        assert row == (newest(),)
        assert migrate(upgraded) == []


def test_functions_and_views_of_an_older_release_are_replaced(older: Database, database: Database) -> None:
    older.open().close()
    check(older, database)


@pytest.mark.slow
def test_an_upgrade_that_is_interrupted_at_any_step_is_done_again(
    older: Database, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, steps = module._execute, 0

    def ended_at(last: int) -> bool:
        """Let the server end the connection after some steps; return whether the upgrade came to its end."""
        count = 0

        def step(connection: psycopg.Connection, *arguments: object) -> None:
            nonlocal count
            count += 1
            execute(connection, *arguments)  # type: ignore[arg-type]
            if count == last:
                with database.connect() as other:
                    other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))

        monkeypatch.setattr(module, "_execute", step)
        try:
            with older.connect() as connection:
                migrate(connection)
        except psycopg.OperationalError:
            return False
        return True

    while not ended_at(steps := steps + 5):
        with older.session() as connection:
            row = connection.execute("select max(version) from bench_internal.migrations").fetchone()
            assert row == (OLDER,), "nothing was changed"
    check(older, database)


def test_what_a_users_view_needs_is_named_and_kept(database: Database) -> None:
    with database.session() as connection:
        connection.execute(
            "drop function bench_internal.some_of(text[]) cascade;"
            "create function bench_internal.some_of(p_words text[]) returns integer language sql as 'select 1';"
            "create view public.mine as select bench_internal.some_of('{}') as found;"
            "create view public.fitting as select run_id from bench.run_samples;"
            "delete from bench_internal.functions_digest"
        )
        with pytest.raises(
            MigrationFailed,
            match=r"(?s)^the function file 06_notice_texts\.sql does not fit .* nothing was changed; .*view mine may need the former",
        ):
            migrate(connection)
        assert connection.execute("select found from public.mine").fetchall() == [(1,)]
        connection.execute("drop view public.mine")
        migrate(connection)
        assert connection.execute("select * from public.fitting").fetchall() == []


def test_rights_of_other_roles_and_objects_of_users_outlive_an_upgrade(database: Database) -> None:
    with login(database.dsn, "bench_reader") as ann, database.session() as connection:
        connection.execute(
            f"grant select on bench.run_samples to {ann};"
            f"grant execute on function bench_internal.some_of(text[]) to {ann};"
            "create view bench.mine as select run_id from bench.run_samples;"
            "create function bench.mine() returns integer language sql as 'select 1';"
            "delete from bench_internal.functions_digest"
        )
        migrate(connection)
        assert connection.execute(
            "select has_table_privilege(%(ann)s, 'bench.run_samples', 'select'), proacl::text like '%%' || %(ann)s || '%%'"
            " from pg_proc where oid = 'bench_internal.some_of(text[])'::regprocedure",
            {"ann": ann},
        ).fetchone() == (True, True)
        assert connection.execute("select bench.mine() from bench.mine").fetchall() == []
        connection.execute(f"drop owned by {ann}")


def test_a_server_with_room_for_few_locks_is_refused_with_the_setting(database: Database, flavour: Flavour) -> None:
    with own_database(database.dsn, timescaledb=flavour is Flavour.TIMESCALEDB) as dsn:
        address = conninfo.make_conninfo(dsn)
        with (
            psycopg.connect(address, autocommit=True) as other,
            psycopg.connect(address, autocommit=True) as connection,
        ):
            for first in range(0, 1_000_000, 200):
                try:
                    other.execute(
                        "select pg_advisory_lock(n) from generate_series(%s::bigint, %s) n", (first, first + 199)
                    )
                except errors.OutOfMemory:
                    other.execute("select pg_advisory_unlock(n) from generate_series(0, 99) n")
                    break
            with pytest.raises(
                MigrationFailed, match=r"max_locks_per_transaction = \d+; as superuser: alter system set"
            ):
                migrate(connection)
