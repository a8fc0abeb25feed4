"""Grafana of the local stack."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Stack
from hypergauge.dashboards.grafana.server import GrafanaServer, admin_password
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.reader import reader
from hypergauge.stack.services.start_settings import start_settings
from hypergauge.stack.services.tracking_server import tracking_uri

__all__ = ["ensure_grafana", "grafana_url"]

_PORT = 3000
_FOLDER = "grafana"  # under BENCH_HOME


def ensure_grafana(
    stack: Stack, settings: Settings, database: Database, notify: Callable[[str], None], seconds: float
) -> None:
    """Start Grafana if it is installed and not running, and wait up to `seconds` until it answers.

    The first start is slow, because Grafana creates its own database.

    Raises
    ------
    BadRequest
        The database has no read-only user, or ``GRAFANA_HOME`` is wrong.
    ServiceFailed
        Grafana ended, or does not answer.
    """
    if "grafana" in stack.services() or (found := GrafanaServer.find()) is None:
        return
    port = stack.port("grafana", _PORT)
    mlflow = tracking_uri(stack, settings) or ""
    command, variables = found.command(settings.home / _FOLDER, reader(database), port, without_login(mlflow))
    url = f"http://127.0.0.1:{port}"
    notify("Starting grafana …")
    recorded = start_settings("grafana", settings)
    service = stack.start(
        "grafana", command, url=url, health=f"{url}/api/health", environment={**os.environ, **variables},
        settings=recorded.shown, digest=recorded.digest,
    )  # fmt: skip
    try:
        stack.await_answer(service, seconds)
    except BaseException:
        stack.stop_all([service.name])
        raise


def grafana_url(settings: Settings, *, login: bool = False) -> str:
    """Return the URL of Grafana: the configured one, else the local stack's, else Grafana's default.

    With `login`, the local stack's URL contains the name and password of its administrator.
    """
    own = Stack(settings).services().get("grafana")
    if settings.grafana_url is not None or own is None:
        return (settings.grafana_url or f"http://127.0.0.1:{_PORT}").rstrip("/")
    return own.url.replace("://", f"://admin:{admin_password(settings.home / _FOLDER)}@") if login else own.url
