"""Access for readers only, for programs such as Grafana in which people write SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypergauge.core.errors import BadRequest
from hypergauge.sql.schema.flavour import Server, inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.replica import may_write

__all__ = ["Reader", "cancel_long_reads", "reader"]


@dataclass(frozen=True, slots=True)
class Reader:
    """A role that may only read, and where it connects to.

    Attributes
    ----------
    host
        A name or address, or the folder of a Unix socket.
    sslmode
        As libpq has it; ``disable`` where the connection has no TLS.
    sslrootcert
        A file, where one is named.
    """

    host: str
    port: int
    database: str
    user: str
    server: Server
    password: str = field(default="", repr=False)
    sslmode: str = "disable"
    sslrootcert: str | None = None


def reader(database: Database) -> Reader:
    """Return the role that reads: that of ``BENCH_READ_DSN``, or of the embedded server, where it is let in.

    Raises
    ------
    BadRequest
        There is no such role, or it may write.
    """
    if database.settings.read_dsn is None:
        if not database.embedded:
            raise BadRequest("set BENCH_READ_DSN to the database as bench_reader: what BENCH_DSN logs in as may write")
        _let_in(database)
    with Database(database.settings, reading=True).session() as connection:
        found = _reader(connection)
        if database.settings.read_dsn is None:
            return Reader(found.host, found.port, found.database, "bench_reader", found.server)
        # Whoever the connection may have become: in Grafana people write SQL as who logs in.
        if may_write(connection, "session_user"):
            raise BadRequest(
                f"BENCH_READ_DSN logs in as {found.user}, who may write: give it bench_reader, who may not"
            )
    return found


def cancel_long_reads(connection: Connection, seconds: float) -> int:
    """Cancel what ``bench_reader`` has asked for longer than that; return how many such there were."""
    row = connection.execute("select cancel_long_reads(make_interval(secs => %s))", (seconds,)).fetchone()
    assert row is not None
    return int(row[0])


def _let_in(database: Database) -> None:
    """Let the embedded server's reader log in; nobody but this user reaches that server."""
    with database.session() as connection:
        connection.execute(
            """
            alter role bench_reader login connection limit 20;
            alter role bench_reader set default_transaction_read_only = on;
            alter role bench_reader set statement_timeout = '30s'
            """
        )


def _reader(connection: Connection) -> Reader:
    info = connection.info
    given = info.get_parameters()
    encrypted = bool(connection.pgconn.ssl_in_use)
    asked = given.get("sslmode", "")
    return Reader(
        host=info.host,
        port=info.port,
        database=info.dbname,
        user=info.user,
        server=inspect(connection),
        password=info.password,
        sslmode="disable" if not encrypted else asked if asked.startswith("verify") else "require",
        sslrootcert=given.get("sslrootcert") if encrypted else None,
    )
