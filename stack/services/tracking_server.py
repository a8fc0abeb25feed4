"""MLflow server of the local stack."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from psycopg import errors

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, TrackingUnavailable
from hypergauge.core.services import Service, Stack
from hypergauge.scheduler.tracking.artifact_store import require_store, store_keys
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.start_settings import start_settings

__all__ = ["own_tracking_server", "starting_tracking", "tracking_uri"]


def own_tracking_server(settings: Settings) -> bool:
    """Return whether the stack runs a tracking server: if none is configured, or only a store without HTTP."""
    return not (settings.tracking_uri or "").startswith(("http://", "https://"))


def tracking_uri(stack: Stack, settings: Settings) -> str | None:
    """Return the address of MLflow, the stack's or the configured one; ``None`` if the stack's server has ended."""
    own = stack.services().get("mlflow") if own_tracking_server(settings) else None
    return own.url if own else settings.tracking_uri


@contextlib.contextmanager
def starting_tracking(
    stack: Stack, settings: Settings, database: Database, environment: dict[str, str], notify: Callable[[str], None]
) -> Iterator[Service]:
    """Start MLflow's server on our database, in its own schema, or on the configured store.

    The server loads MLflow within the context, so the caller opens the database there. It gets its store at the end.
    `notify` receives a message if the artifact store does not answer, or if the server's port has changed.

    Raises
    ------
    BadRequest
        The configured artifact store cannot be used, or the login may not create the store of MLflow's server.
    """
    artifacts = settings.artifacts or str(settings.home / "artifacts")
    try:
        require_store(artifacts)
    except TrackingUnavailable as error:
        notify(f"{error}; runs continue, and their artifacts are delivered later")
    port = stack.lasting_port("mlflow", notify)
    url = f"http://127.0.0.1:{port}"
    process = [sys.executable, "-m", f"{__package__}.mlflow_process"]
    words = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--artifacts-destination", artifacts]
    recorded = start_settings("mlflow", settings)
    reading, writing = os.pipe()
    try:
        with os.fdopen(reading, "rb") as store:
            service = stack.start(
                "mlflow",
                [*process, *words],
                url=url,
                health=f"{url}/health",
                environment={
                    **{name: value for name, value in environment.items() if name != "MLFLOW_TRACKING_URI"},
                    **store_keys(),
                    "MLFLOW_ALLOW_FILE_STORE": "true",  # the user may have configured a folder
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                    "MLFLOW_DISABLE_TELEMETRY": "true",
                },
                settings=recorded.shown,
                digest=recorded.digest,
                stdin=store,
            )
        yield service
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its log shows why
            os.write(writing, f"{_store(settings, database)}\n".encode())
    finally:
        os.close(writing)


def _store(settings: Settings, database: Database) -> str:
    """Return the address of MLflow's store, which exists."""
    if settings.tracking_uri is not None:
        return _absolute(settings.tracking_uri)
    with database.session() as connection:
        try:
            connection.execute("create schema if not exists mlflow")
        except errors.InsufficientPrivilege as error:
            raise BadRequest(
                f"{connection.info.user} may not create the tables of a local MLflow server in this database: set "
                "MLFLOW_TRACKING_URI to the http address of your MLflow server, or to a store such as sqlite:////PATH/mlflow.db"
            ) from error
    return database.sqlalchemy_url("mlflow")


def _absolute(store: str) -> str:
    """Return the address of an MLflow store with an absolute path."""
    if store.startswith("sqlite:///"):
        return f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return store if ":" in store else str(Path(store).absolute())
