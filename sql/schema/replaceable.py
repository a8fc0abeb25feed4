"""Functions and views in the database, dropped before those of this release are created.

``create or replace`` refuses another return type, other names of parameters or fewer columns, and keeps functions with
other parameters beside the new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import psycopg
from psycopg import errors

from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.schemas import DASHBOARD, INTERNAL, OWN, PUBLIC

__all__ = ["Grants", "dependents", "drop_replaceable"]

# Everything in these schemas is ours. Users may have added to the public one.
_OURS_ALONE = [INTERNAL, DASHBOARD, OWN]
_CREATED = re.compile(r"create or replace (?:function|procedure|view) +(?:bench\.)?(\w+)[\s(]", re.IGNORECASE)
# Continuous aggregates in TimescaleDB, where a migration creates them; views in plain PostgreSQL, where a function file does.
_AGGREGATES = ("samples_10s", "samples_1m", "samples_10m")
_ROLES = ["bench_owner", "bench_writer", "bench_reader", "bench_reader_own", "mlflow"]

# Triggers first, since they need their functions.
_REPLACEABLE = """
    with ours as (
        select oid, nspname = any(%(schemas)s) as alone from pg_namespace
        where nspname = any(%(schemas)s) or nspname = %(public)s),
    routines as (
        select p.oid, p.prokind, p.oid::regprocedure::text as name from pg_proc p join ours on ours.oid = pronamespace
        where alone or proname = any(%(names)s))
    select 0 as rank, format('trigger %%I on %%s', tgname, tgrelid::regclass) as object
    from pg_trigger join pg_class c on c.oid = tgrelid
    where not tgisinternal and tgfoid in (select oid from routines) and c.relnamespace in (select oid from ours)
    union all
    select 1, format('view %%s', c.oid::regclass)
    from pg_class c join ours on ours.oid = relnamespace
    where relkind = 'v' and (alone or relname = any(%(names)s)) and relname <> all(%(kept)s)
    union all
    select 2, format('%%s %%s', case prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end, name)
    from routines
    order by 1, 2
"""
_GRANTS = """
    select format('grant %%s on %%s %%s to %%I', privilege_type, kind, name, grantee::regrole)
    from (select 'table' as kind, c.oid::regclass::text as name, (aclexplode(relacl)).*, relowner as owner
          from pg_class c where relkind = 'v' and relnamespace = any(%(schemas)s::regnamespace[])
          union all
          select 'routine', p.oid::regprocedure::text, (aclexplode(proacl)).*, proowner
          from pg_proc p where pronamespace = any(%(schemas)s::regnamespace[])) granted
    where grantee <> 0 and grantee <> owner
      and not exists (select from pg_roles where oid = grantee and rolname = any(%(roles)s))
"""


def drop_replaceable(connection: psycopg.Connection, flavour: Flavour, files: Iterable[str]) -> None:
    """Drop the functions, procedures, views and triggers that the function files of this release create, and former ones.

    An object on which one of the user's depends stays. In schema ``bench``, objects that no file names stay too.
    """
    names = {name for text in files for name in _CREATED.findall(text)}
    if flavour is Flavour.POSTGRESQL:
        names.update(_AGGREGATES)
    values = {
        "schemas": _OURS_ALONE,
        "public": PUBLIC,
        "names": sorted(names),
        "kept": [] if flavour is Flavour.POSTGRESQL else list(_AGGREGATES),
    }
    remaining = [name for _, name in connection.execute(_REPLACEABLE, values).fetchall()]
    while remaining:
        kept = [name for name in remaining if not _dropped(connection, name)]
        if len(kept) == len(remaining):
            return
        remaining = kept


def _dropped(connection: psycopg.Connection, name: str) -> bool:
    """Drop an object, unless another one depends on it."""
    try:
        with connection.transaction():
            connection.execute(f"drop {name}".encode())
    except errors.DependentObjectsStillExist:
        return False
    return True


def dependents(connection: psycopg.Connection) -> list[str]:
    """Return the user's views and functions outside our schemas that depend on functions and views in them."""
    rows = connection.execute(
        """
        with ours as (select oid from pg_namespace where nspname = any(%(schemas)s)),
        objects as (
            select 'pg_proc'::regclass as class, oid from pg_proc where pronamespace in (select oid from ours)
            union all select 'pg_class'::regclass, oid from pg_class where relkind = 'v' and relnamespace in (select oid from ours)
            union all select 'pg_type'::regclass, reltype from pg_class where relkind = 'v' and relnamespace in (select oid from ours))
        select distinct pg_describe_object(case when c.oid is null then d.classid else c.tableoid end, coalesce(c.oid, d.objid), 0)
        from pg_depend d join objects o on d.refclassid = o.class and d.refobjid = o.oid
        left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
        left join pg_class c on c.oid = r.ev_class
        left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
        where d.deptype = 'n' and coalesce(c.relnamespace, p.pronamespace) not in (select oid from ours)
        order by 1
        """,
        {"schemas": [*_OURS_ALONE, PUBLIC]},
    ).fetchall()
    return [str(name) for (name,) in rows]


class Grants:
    """Rights on functions and views that an administrator gave to roles other than ours."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        schemas = connection.execute(
            "select nspname from pg_namespace where nspname = any(%s)", ([*_OURS_ALONE, PUBLIC],)
        ).fetchall()
        values = {"schemas": [name for (name,) in schemas], "roles": _ROLES}
        self._statements = [str(text) for (text,) in connection.execute(_GRANTS, values).fetchall()]

    def restore(self) -> None:
        """Give them again on what still exists."""
        for statement in self._statements:
            try:
                with self._connection.transaction():
                    self._connection.execute(statement.encode())
            except (errors.UndefinedTable, errors.UndefinedFunction):
                continue
