"""Collector process: the collector with its database, its targets and the delivery of summaries to MLflow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from hypergauge.collector.collector import collect
from hypergauge.collector.discovery.config_file import read_config
from hypergauge.core.config.settings import Settings
from hypergauge.core.http.server import require_closed
from hypergauge.core.services import Stack
from hypergauge.exporters.serving import registry
from hypergauge.scheduler.tracking.summary_delivery import SummaryDelivery
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.local_exporters import LocalExporters
from hypergauge.stack.services.tracking_server import tracking_uri

__all__ = ["run_collector"]


def run_collector(
    settings: Settings, targets: Path | None, bind: str, port: int, warn: Callable[[str], None], *, insecure: bool
) -> None:
    """Run the collector until SIGTERM or Ctrl-C.

    Parameters
    ----------
    targets
        Targets file; by default the targets are the local exporters.
    warn
        Receiver of warnings.

    Raises
    ------
    BadRequest
        The targets file is invalid, or other hosts reach the address and the server is open.
    """
    require_closed(bind, settings.web_config, insecure=insecure)  # before a database starts
    if targets is not None:
        read_config(targets, settings.interval, warn)  # a bad file is refused before a database starts
    with contextlib.closing(Database(settings)) as database:
        if away := database.open_or_wait():
            warn(f"{away}; samples are kept in the spool until the database answers")
        wanted = targets or LocalExporters(settings, database)
        with SummaryDelivery(database, lambda: tracking_uri(Stack(settings), settings)):
            collect(
                database, wanted, settings.spool_dir, port=port, bind=bind, web=settings.web_config, insecure=insecure,
                interval=settings.interval, exporters=registry.names(),
            )  # fmt: skip
