"""Connections to the database. The only caller of the driver's connect, and it wraps the driver's errors."""

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
from hypergauge.sql.server import replica
from hypergauge.sql.server.embedded import EmbeddedServer

__all__ = ["Connection", "Database", "StatementFailed", "lost"]

_log = logging.getLogger(__name__)

Connection = psycopg.Connection
# A server whose host has vanished is given up after this; the kernel alone would take a quarter of an hour.
_SILENCE_MILLISECONDS = 30_000
_CANCELLED = (
    "the replica has cancelled this, time and again, since it was in the way of what had to be replayed: "
    "repeat it, or set max_standby_streaming_delay higher there"
)
# What a driver raises when the server went away; such a call may be retried.
lost = (psycopg.OperationalError, psycopg.InterfaceError)


class StatementFailed(DatabaseUnavailable):
    """The database refused a statement."""


class Database:
    """The database of some settings, held open for the life of a command.

    Parameters
    ----------
    settings
        With a `dsn`, that server; else the embedded one, started on demand and held until `close`.
    reading
        For questions alone: with a `read_dsn` that server is asked and no other, and every connection is read-only.

    Attributes
    ----------
    opened
        Whether the server has answered, and its schema is up to date.
    """

    def __init__(self, settings: Settings, *, reading: bool = False) -> None:
        self.settings = settings
        self._reading = reading
        self._elsewhere = reading and settings.read_dsn is not None
        self._dsn = settings.read_dsn if self._elsewhere else settings.dsn
        self._embedded = None if self._dsn else EmbeddedServer(settings.database_dir)
        self.opened = False

    @property
    def embedded(self) -> bool:
        """Return whether this is the embedded server."""
        return self._embedded is not None

    def hold(self) -> None:
        """Keep the embedded server from being stopped, started where needed; nothing for a server of its own.

        Raises
        ------
        BadRequest
            What is written would not be seen by who asks: they have a `read_dsn`, which leads elsewhere.
        """
        if self._embedded is not None:
            if self.settings.read_dsn is not None:
                raise BadRequest(
                    "BENCH_READ_DSN is set without BENCH_DSN: one can look, but what is written would go to an embedded "
                    "database that nobody looks at; set BENCH_DSN as well"
                )
            self._dsn = self._embedded.acquire()

    def open(self) -> Self:
        """Start the server where needed and bring the schema up to date; safe to call twice.

        Of a `read_dsn` the schema is looked at, and whether who logs in there may read and no more.
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
        except BaseException:
            self.close()
            raise
        self.opened = True
        return self

    def open_or_wait(self) -> str:
        """Do so, or return why a server that is not ours to start does not answer: who has time comes again.

        Raises
        ------
        BenchError
            It can't be for another reason, such as a connection string that is none.
        """
        try:
            self.open()
        except DatabaseUnavailable as error:
            if self.embedded or not isinstance(error.__cause__, psycopg.OperationalError):
                raise
            return str(error)
        except errors.ReadOnlySqlTransaction as error:  # as a standby that is not promoted yet
            return str(error)
        return ""

    def close(self) -> None:
        """Let go of the server; safe to call twice and before `open`."""
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

        Raises
        ------
        DatabaseUnavailable
            The server does not answer. The message holds no password.
        """
        return self._connected(read_only=self._reading, timeout=timeout)

    def _connected(self, *, read_only: bool, timeout: float) -> Connection:
        dsn, name = self.dsn, "BENCH_READ_DSN" if self._elsewhere else "BENCH_DSN"
        try:
            connection = psycopg.connect(
                dsn,
                autocommit=True,
                connect_timeout=int(timeout),
                application_name="hypergauge",
                tcp_user_timeout=_SILENCE_MILLISECONDS,
                cursor_factory=replica.AskingAgain if read_only else None,
            )
            # Synchronous where the server's default is not: what we say is written has left the spool or a run's folder,
            # so it must not vanish with a server that crashes. Without JIT, since compiling a short analytic query takes
            # seconds; the schema sets that for its database too, where its owner may. Who may not read `bench` reads what there is of it in `bench_own`.
            connection.execute(
                """
                select set_config('search_path',
                                  case min(nspname) when 'bench_own' then 'bench_own, ' else '' end || 'bench, public', false),
                       set_config('jit', 'off', false),
                       case when current_setting('synchronous_commit') = 'off'
                            then set_config('synchronous_commit', 'on', false) end,
                       case when %s then set_config('default_transaction_read_only', 'on', false) end
                from pg_class c join pg_namespace n on n.oid = relnamespace
                where nspname in ('bench', 'bench_own') and relname = 'runs' and has_table_privilege(c.oid, 'select')
                """,
                (read_only,),
            )
        except psycopg.ProgrammingError:
            # libpq quotes what it cannot parse, which may be the password.
            raise DatabaseUnavailable(f"the connection string ({name}) cannot be parsed") from None
        except psycopg.Error as error:
            where = f" ({name})" if self._elsewhere else ""
            raise DatabaseUnavailable(
                f"the database at {public(dsn)}{where} does not answer: {error}".strip()
            ) from error
        return connection

    @contextlib.contextmanager
    def session(self) -> Iterator[Connection]:
        """Open a connection for a few statements; the driver's errors leave as ours."""
        with self.connect() as connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise self.failure(error, connection) from error

    def failure(self, error: psycopg.Error, connection: Connection | None) -> StatementFailed:
        """Return what the driver says as an error of ours."""
        # The second is what a view of `bench_own` says of writing.
        forbidden = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)
        if connection is not None and isinstance(error, forbidden):
            said = error.diag.message_primary
            return StatementFailed(f"{connection.info.user} may not do this in the database: {said}")
        cancelled = self._reading and isinstance(error, replica.conflicts)
        return StatementFailed(_CANCELLED if cancelled else str(error).strip())

    def libpq_environment(self) -> dict[str, str]:
        """Return the variables by which psql and other programs of PostgreSQL find the database."""
        variables = {option.keyword.decode(): option.envvar for option in pq.Conninfo.get_defaults()}
        return {
            variable.decode(): str(value)
            for name, value in conninfo.conninfo_to_dict(self.dsn).items()
            if (variable := variables.get(name)) and value is not None
        }

    def sqlalchemy_url(self, schema: str) -> str:
        """Return the URL under which SQLAlchemy, and so MLflow, keeps its tables in `schema` of this database."""
        parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(self.dsn).items() if value is not None}
        login = quote(parts.pop("user", ""), safe="")
        if password := parts.pop("password", ""):
            login += f":{quote(password, safe='')}"
        name = quote(parts.pop("dbname", "postgres"), safe="")
        # The rest as it is (host, port, TLS): a query's parameters are libpq's.
        query = urlencode({**parts, "options": f"-csearch_path={schema}"}, quote_via=quote)
        return f"postgresql+psycopg://{login}@/{name}?{query}"


def public(dsn: str) -> str:
    """Return a connection string as it may be shown: without its password."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return urlsplit(dsn).hostname or "?"
    return " ".join(f"{name}={value}" for name, value in parts.items() if name != "password")
