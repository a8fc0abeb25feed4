"""Users of a shared database."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import psycopg
from psycopg import conninfo, sql

from tests.support.waiting import wait_for


@contextlib.contextmanager
def login(dsn: str, role: str) -> Iterator[str]:
    """Yield the name of a new login in `role`, dropped at the end since roles belong to the whole server."""
    name = f"ann_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login in role {}").format(sql.Identifier(name), sql.Identifier(role)))
    try:
        yield name
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            # A closed session drops its temporary objects late, on a busy host.
            sessions = "select from pg_stat_activity where usename = %s"
            wait_for(lambda: admin.execute(sessions, (name,)).fetchone() is None, f"the end of {name}'s sessions")
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_person(
    dsn: str, name: str, path: str = "bench_own, bench, bench_internal, bench_dashboard, public"
) -> psycopg.Connection:
    """Return a user's connection, with the search path of the documentation."""
    options = f"-csearch_path={path.replace(' ', '')} -cstatement_timeout=240s -cTimeZone=UTC"
    return psycopg.connect(conninfo.make_conninfo(dsn, user=name, options=options), autocommit=True)
