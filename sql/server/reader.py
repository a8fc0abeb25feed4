"""Read-only access for programs such as Grafana, in which users write SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypergauge.core.errors import BadRequest
from hypergauge.sql.schema.flavour import Server, inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.replica import may_write
from hypergauge.sql.server.rows import value

__all__ = ["Reader", "cancel_long_reads", "reader"]


@dataclass(frozen=True, slots=True)
class Reader:
    """Read-only role, with its connection parameters.

    Attributes
    ----------
    host
        Name, address, or folder of a Unix socket.
    sslmode
        libpq's mode; ``disable`` for a connection without TLS.
    sslrootcert
        File of the root certificate; ``None`` if not set.
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
    """Return the read-only role: that of ``BENCH_READ_DSN``, or ``bench_reader`` on the embedded server.

    Enable the login of ``bench_reader`` on the embedded server.

    Raises
    ------
    BadRequest
        ``BENCH_READ_DSN`` is missing for an external server, or its role may write.
    """
    if database.settings.read_dsn is None:
        if not database.embedded:
            raise BadRequest("set BENCH_READ_DSN to the database as bench_reader: the role of BENCH_DSN may write")
        _let_in(database)
    with Database(database.settings, reading=True).session() as connection:
        found = _reader(connection)
        if database.settings.read_dsn is None:
            return Reader(found.host, found.port, found.database, "bench_reader", found.server)
        # The login role counts, not a role set later: Grafana's users run SQL as the login.
        if may_write(connection, "session_user"):
            raise BadRequest(
                f"BENCH_READ_DSN logs in as {found.user}, who may write: give it bench_reader, who may not"
            )
    return found


def cancel_long_reads(connection: Connection, seconds: float) -> int:
    """Cancel the queries of readers that run for longer than `seconds`, and end sessions that idle so long in a transaction.

    Return their number.
    """
    return value(connection, int, "select cancel_long_reads(make_interval(secs => %s))", (seconds,))


def _let_in(database: Database) -> None:
    """Enable the login of the embedded server's reader; only this user can reach that server."""
    with database.session() as connection:
        connection.execute("alter role bench_reader login connection limit 20")


def _reader(connection: Connection) -> Reader:
    info = connection.info
    given = info.get_parameters()
    encrypted = bool(connection.pgconn.ssl_in_use)
    mode = given.get("sslmode", "")
    return Reader(
        host=info.host,
        port=info.port,
        database=info.dbname,
        user=info.user,
        server=inspect(connection),
        password=info.password,
        sslmode="disable" if not encrypted else mode if mode.startswith("verify") else "require",
        sslrootcert=given.get("sslrootcert") if encrypted else None,
    )
