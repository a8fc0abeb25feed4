"""MLflow server of the local stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.services import Service, Stack
from hypergauge.scheduler.tracking.artifact_store import require_store, store_keys
from hypergauge.sql.server.database import Database

__all__ = ["own_tracking_server", "start_tracking", "tracking_uri"]


def own_tracking_server(settings: Settings) -> bool:
    """Return whether the stack runs a tracking server: if none is configured, or only a store without HTTP."""
    return not (settings.tracking_uri or "").startswith(("http://", "https://"))


def tracking_uri(stack: Stack, settings: Settings) -> str | None:
    """Return the address of MLflow, the stack's or the configured one; ``None`` if the stack's server has ended."""
    own = stack.services().get("mlflow") if own_tracking_server(settings) else None
    return own.url if own else settings.tracking_uri


def start_tracking(
    stack: Stack, settings: Settings, database: Database, environment: dict[str, str], notify: Callable[[str], None]
) -> Service:
    """Start MLflow's server on our database, in its own schema, or on the configured store.

    `notify` receives a message if the artifact store does not answer, or if the server's port has changed.

    Raises
    ------
    BadRequest
        The configured artifact store cannot be used.
    """
    if settings.tracking_uri is None:
        with database.session() as connection:
            connection.execute("create schema if not exists mlflow")
        store = database.sqlalchemy_url("mlflow")
    else:
        store = _absolute(settings.tracking_uri)
    artifacts = settings.artifacts or str(settings.home / "artifacts")
    try:
        require_store(artifacts)
    except TrackingUnavailable as error:
        notify(f"{error}; runs continue, and their artifacts are delivered later")
    port = stack.lasting_port("mlflow", notify)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return stack.start(
        "mlflow",
        [*command, "--artifacts-destination", artifacts],
        url=url,
        health=f"{url}/health",
        environment={
            **{name: value for name, value in environment.items() if name != "MLFLOW_TRACKING_URI"},
            **store_keys(),
            "MLFLOW_BACKEND_STORE_URI": store,  # no argument, because `ps` would show its password
            "MLFLOW_ALLOW_FILE_STORE": "true",  # the user may have configured a folder
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )


def _absolute(store: str) -> str:
    """Return the address of an MLflow store with an absolute path."""
    if store.startswith("sqlite:///"):
        return f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return store if ":" in store else str(Path(store).absolute())
