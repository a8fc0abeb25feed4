"""Users who share a database."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import psycopg
from psycopg import conninfo, sql


@contextlib.contextmanager
def login(dsn: str, role: str) -> Iterator[str]:
    """Yield the name of a new login in `role`, which is gone in the end: roles are those of the whole server."""
    name = f"ann_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login in role {}").format(sql.Identifier(name), sql.Identifier(role)))
    try:
        yield name
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_person(dsn: str, name: str, path: str = "bench_own, bench, public") -> psycopg.Connection:
    """Log in as somebody, with a search path as the documentation says."""
    options = f"-csearch_path={path.replace(' ', '')} -cstatement_timeout=240s -cTimeZone=UTC"
    return psycopg.connect(conninfo.make_conninfo(dsn, user=name, options=options), autocommit=True)
