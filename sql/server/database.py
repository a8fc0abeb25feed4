"""Connections to the database. The only module that calls the driver's connect; it wraps the driver's errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

import psycopg
from psycopg import conninfo, errors, pq

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.migrate import migrate
from hypergauge.sql.schema.schemas import SEARCH_PATH
from hypergauge.sql.server import replica
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.restarts import Restart, Restarts

__all__ = ["Connection", "Database", "StatementFailed", "another", "connection_parts", "lost"]

_log = logging.getLogger(__name__)

Connection = psycopg.Connection
# Timeout for a server whose host has vanished; the kernel's default takes a quarter of an hour.
_SILENCE_MILLISECONDS = 30_000
_CANCELLED = (
    "the replica has cancelled the query several times, because it delayed replication: "
    "retry, or set max_standby_streaming_delay higher there"
)
# Errors of the driver for a lost server; such a call may be retried.
lost = (psycopg.OperationalError, psycopg.InterfaceError)


class StatementFailed(DatabaseUnavailable):
    """The database refused a statement."""


class Database:
    """Database of some settings, held for the life of a command.

    Parameters
    ----------
    settings
        Settings with a `dsn` select that server; else the embedded server, started on demand and held until `close`.
    reading
        Whether every connection is read-only. With a `read_dsn`, only that server is used.
    starts
        Whether this process may start the embedded server.

    Attributes
    ----------
    opened
        Whether the server has answered with an up-to-date schema.
    """

    def __init__(self, settings: Settings, *, reading: bool = False, starts: bool = True) -> None:
        self.settings = settings
        self._reading = reading
        self._elsewhere = reading and settings.read_dsn is not None
        self._dsn = settings.read_dsn if self._elsewhere else settings.dsn
        self._embedded = None if self._dsn else EmbeddedServer(settings.database_dir, starts=starts)
        self.opened = False

    @property
    def embedded(self) -> bool:
        """Return whether the database is on the embedded server."""
        return self._embedded is not None

    @property
    def restarts(self) -> list[Restart]:
        """Return the starts of the embedded server after it had died, oldest first."""
        return [] if self._embedded is None else Restarts(self._embedded.folder).read()

    def hold(self) -> None:
        """Start the embedded server if needed, and keep it running. No effect for an external server.

        Raises
        ------
        BadRequest
            Only `read_dsn` is set, so readers would never see data on the embedded server.
        """
        if self._embedded is not None:
            if self.settings.read_dsn is not None:
                raise BadRequest(
                    "BENCH_READ_DSN is set without BENCH_DSN: reads would work, but writes would go to an embedded "
                    "database without readers; set BENCH_DSN as well"
                )
            self._dsn = self._embedded.acquire()

    def open(self) -> Self:
        """Start the server if needed, and bring the schema up to date; safe to call twice.

        With a `read_dsn`, check that the schema is current and that the login may only read.
        """
        self.hold()
        try:
            if self._elsewhere:
                with self.session() as connection:
                    replica.check(connection)
            else:
                with self._connected(read_only=False, timeout=10) as connection:
                    applied = migrate(connection)
                    if applied and applied[0].version == 1 and (missed := extension.advice(connection)):
                        _log.warning(missed)
        except lost as error:  # it shut down meanwhile
            self.close()
            raise _away(self.dsn, self._variable, error) from error
        except BaseException:
            self.close()
            raise
        self.opened = True
        return self

    def open_or_wait(self) -> str:
        """Open the database, or return why an external server does not answer, so that the caller can retry later.

        Raises
        ------
        BenchError
            The database cannot be opened for another reason, such as an invalid connection string.
        """
        try:
            self.open()
        except (DatabaseUnavailable, errors.ReadOnlySqlTransaction) as error:
            if not self.is_away(error):
                raise
            return str(error)
        return ""

    def is_away(self, error: Exception) -> bool:
        """Return whether `error` shows that an external server does not answer, or is a standby before its promotion."""
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return True
        return (
            isinstance(error, DatabaseUnavailable)
            and isinstance(error.__cause__, psycopg.OperationalError)
            and not self.embedded
        )

    def answers(self) -> bool:
        """Return whether the server accepts connections, even if it refuses this login."""
        return pq.PGconn.ping(self.dsn.encode()) == pq.Ping.OK

    def close(self) -> None:
        """Release the server; safe to call twice and before `open`."""
        if self._embedded is not None:
            self._embedded.release()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def dsn(self) -> str:
        """The connection string for reads and writes."""
        if self._dsn is None:
            assert self._embedded is not None
            return self._embedded.dsn
        return self._dsn

    def connect(self, *, timeout: float = 10) -> Connection:
        """Open a connection in autocommit mode with schema ``bench`` in front.

        An embedded server that died meanwhile is started again.

        Raises
        ------
        DatabaseUnavailable
            The server does not answer. The message holds no password.
        """
        try:
            return self._connected(read_only=self._reading, timeout=timeout)
        except DatabaseUnavailable:
            if self._embedded is None or not self._embedded.restore():
                raise
        return self._connected(read_only=self._reading, timeout=timeout)

    def _connected(self, *, read_only: bool, timeout: float) -> Connection:
        return _connected(self.dsn, self._variable, read_only=read_only, timeout=timeout)

    @property
    def _variable(self) -> str:
        return "BENCH_READ_DSN" if self._elsewhere else "BENCH_DSN"

    @contextlib.contextmanager
    def session(self) -> Iterator[Connection]:
        """Open a connection for a few statements, and convert the driver's errors to ours."""
        with self.connect() as connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise self.failure(error, connection) from error

    def failure(self, error: psycopg.Error, connection: Connection | None) -> StatementFailed:
        """Convert an error of the driver to ours."""
        # A write to a view of `bench_own` raises the second error.
        forbidden = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)
        if connection is not None and isinstance(error, forbidden):
            reason = error.diag.message_primary
            return StatementFailed(f"{connection.info.user} may not do this in the database: {reason}")
        cancelled = self._reading and isinstance(error, replica.conflicts)
        return StatementFailed(_CANCELLED if cancelled else str(error).strip())

    def libpq_environment(self) -> dict[str, str]:
        """Return the environment variables with which psql and other PostgreSQL programs find the database."""
        variables = {option.keyword.decode(): option.envvar for option in pq.Conninfo.get_defaults()}
        return {
            variable.decode(): str(value)
            for name, value in conninfo.conninfo_to_dict(self.dsn).items()
            if (variable := variables.get(name)) and value is not None
        }

    def sqlalchemy_url(self, schema: str) -> str:
        """Return the URL with which SQLAlchemy, and so MLflow, stores its tables in `schema` of this database."""
        parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(self.dsn).items() if value is not None}
        login = quote(parts.pop("user", ""), safe="")
        if password := parts.pop("password", ""):
            login += f":{quote(password, safe='')}"
        name = quote(parts.pop("dbname", "postgres"), safe="")
        # The other parts (host, port, TLS) stay: SQLAlchemy passes query parameters to libpq.
        query = urlencode({**parts, "options": f"-csearch_path={schema}"}, quote_via=quote)
        return f"postgresql+psycopg://{login}@/{name}?{query}"


def another(connection: Connection, *, timeout: float = 10) -> Connection:
    """Open another connection like `connection`: to the same server, and read-only if that is.

    Raises
    ------
    DatabaseUnavailable
        The server refuses it, for example because it has too many connections.
    """
    dsn = conninfo.make_conninfo(connection.info.dsn, password=connection.info.password or None)
    read_only = connection.cursor_factory is replica.RetryingCursor
    return _connected(dsn, "BENCH_DSN", read_only=read_only, timeout=timeout)


def _connected(dsn: str, name: str, *, read_only: bool, timeout: float) -> Connection:
    try:
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=int(timeout),
            application_name="hypergauge",
            tcp_user_timeout=_SILENCE_MILLISECONDS,
            cursor_factory=replica.RetryingCursor if read_only else None,
        )
        # Commits are synchronous even if the server's default is not: committed data have left the spool or the
        # run's folder, so a crash of the server must not lose them. JIT is off, since compiling a short analytic
        # query takes seconds; the schema also sets this for its database if the owner may. A user without access
        # to `bench` reads the views of `bench_own`.
        connection.execute(
            """
            select set_config('search_path',
                              case min(nspname) when 'bench_own' then 'bench_own, ' else '' end || %s, false),
                   set_config('jit', 'off', false),
                   case when current_setting('synchronous_commit') = 'off'
                        then set_config('synchronous_commit', 'on', false) end,
                   case when %s then set_config('default_transaction_read_only', 'on', false) end
            from pg_class c join pg_namespace n on n.oid = relnamespace
            where nspname in ('bench', 'bench_own') and relname = 'runs' and has_table_privilege(c.oid, 'select')
            """,
            (SEARCH_PATH, read_only),
        )
    except psycopg.ProgrammingError:
        # libpq's message quotes the text that it cannot parse, possibly the password.
        raise DatabaseUnavailable(f"the connection string ({name}) cannot be parsed") from None
    except psycopg.Error as error:
        raise _away(dsn, name, error) from error
    return connection


def _away(dsn: str, name: str, error: psycopg.Error) -> DatabaseUnavailable:
    where = f" ({name})" if name != "BENCH_DSN" else ""
    reason = error.diag.message_primary or " ".join(str(error).split())  # libpq's text has several lines
    return DatabaseUnavailable(f"the database at {public(dsn)}{where} does not answer: {reason}")


def connection_parts(dsn: str) -> dict[str, str]:
    """Return the parameters of a connection that select its server, database and login, with libpq's defaults.

    Two texts for the same connection have the same parameters. A text that cannot be parsed is a parameter of its own.
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return {"password": dsn}  # it may contain one
    selecting = ("host", "hostaddr", "port", "dbname", "user", "service")
    defaults = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
    found = {name: default.decode() for name in selecting if (default := defaults.get(name))}
    found |= {name: str(value) for name, value in given.items() if value is not None}
    found.setdefault("dbname", found.get("user", ""))
    return found


def public(dsn: str) -> str:
    """Return a connection string for display, without its password."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return urlsplit(dsn).hostname or "?"
    return " ".join(f"{name}={value}" for name, value in parts.items() if name != "password")
