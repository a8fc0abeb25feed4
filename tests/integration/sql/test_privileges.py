"""Functions with their owner's rights: no caller gains more than the function gives, in both flavours."""

from __future__ import annotations

import re

import psycopg
import pytest

from hypergauge.sql.server.database import Database

pytestmark = pytest.mark.flavours

# The least and the most that such a function may find names in. What a caller can make, temporary relations, comes last.
SEARCH_PATHS = {"pg_catalog, pg_temp", "pg_catalog, bench, bench_internal, pg_temp"}
DEFINERS = """
    select format('%I.%I', n.nspname, p.proname),
           (select substr(one, length('search_path=') + 1) from unnest(p.proconfig) one where one ^@ 'search_path='),
           has_function_privilege('public', p.oid, 'execute'),
           array(select grantee::regrole::text from aclexplode(p.proacl) where grantee <> p.proowner order by 1)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    order by 1
"""
# Who calls them: what each of these roles may do beyond its own rights.
CALLERS = {
    "bench.cancel_long_reads": ["bench_owner", "bench_writer"],
    "bench_internal.remove_runs": ["bench_owner", "bench_writer"],
    "bench_own.mine": ["bench_reader_own"],
    "bench_own.my_places": ["bench_reader_own"],
    "bench_own.run_chart": ["bench_reader_own"],
    "bench_own.sets": ["bench_reader_own"],
    "bench_own.workload_chart": ["bench_reader_own"],
}


def test_what_runs_with_its_owners_rights_finds_nothing_of_its_callers(database: Database) -> None:
    with database.session() as connection:
        found = connection.execute(DEFINERS).fetchall()
        makers = connection.execute(
            "select r, s from unnest(%s::text[]) r, unnest(array['bench', 'bench_internal', 'bench_dashboard', 'bench_own', 'public']) s where has_schema_privilege(r, s, 'create')",
            (["bench_writer", "bench_reader", "bench_reader_own"],),
        ).fetchall()
    assert {name: callers for name, _, _, callers in found} == CALLERS
    for name, path, everybody, _ in found:
        assert path in SEARCH_PATHS, name
        assert not everybody, name
    assert makers == [], "they find what is in these schemas"


def test_no_writer_becomes_superuser_by_a_temporary_view(database: Database) -> None:
    """A view under the name of one that the function reads, whose columns run as the function's owner."""
    with database.connect() as owner, database.connect() as writer:
        assert owner.execute("select usesuper from pg_user where usename = session_user").fetchone() == (True,)
        owner.execute("drop role if exists climbed")
        writer.execute("set role bench_writer")
        writer.execute(
            """
            create function pg_temp.climb() returns text language plpgsql as $$
            begin
                create role climbed superuser;
                return 'bench_reader';
            end $$;
            create temp view pg_stat_activity as
            select pg_temp.climb() as usename, current_database() as datname, 'active' as state, now() - interval '1 h' as query_start,
                   0 as pid
            """
        )
        try:
            assert writer.execute("select cancel_long_reads('0 s')").fetchone() == (0,)
            assert owner.execute("select from pg_roles where rolname = 'climbed'").fetchone() is None
        finally:
            owner.execute("drop role if exists climbed")


@pytest.mark.parametrize("call", ["remove_runs('{}')", "cancel_long_reads('0 s')"])
def test_who_may_only_read_calls_none_of_them(database: Database, call: str) -> None:
    with database.connect() as reader:
        reader.execute("set role bench_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=re.escape(call.partition("(")[0])):
            reader.execute(f"select {call}".encode())
