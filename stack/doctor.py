"""Findings on this host: what is missing, and the command that fixes it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files import private
from hypergauge.core.pages import Page
from hypergauge.dashboards.grafana.server import HOW_TO_GET_ONE, GrafanaServer
from hypergauge.gpu import inventory
from hypergauge.gpu.vendors import VENDORS
from hypergauge.sql.ingest.targets import unmeasured_hosts
from hypergauge.sql.maintenance.background import failing_jobs
from hypergauge.sql.maintenance.tuning import costly_settings
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.lease import network_filesystem
from hypergauge.sql.server.server_status import ServerStatus
from hypergauge.stack.services.local_stack import availability
from hypergauge.stack.unmeasured import unmeasured_message

if TYPE_CHECKING:
    from hypergauge.core.http.checks import Finding

__all__ = ["certificate_findings", "findings"]

_PYTHON = (3, 11)
_FREE_BYTES = 1 << 30


def findings(settings: Settings) -> list[Finding]:
    """Return findings on Python, the database, the GPUs, the exporters, Grafana and the home."""
    exporters = availability(settings)
    return [
        ("Python", sys.version_info >= _PYTHON, sys.version.split()[0]),
        *_database(settings),
        *_database_folder(settings),
        *_gpus(settings, exporters),
        *((f"exporter {name}", why is None, why or "works here") for name, why in exporters.items()),
        ("Grafana", *_grafana()),
        ("BENCH_HOME", *_home(settings)),
    ]


def certificate_findings(settings: Settings) -> list[Finding]:
    """Return findings on the ``web.yml`` and on the connection to the database."""
    from hypergauge.core.http.checks import check  # imports cryptography
    from hypergauge.sql.server.transport import transport

    found: list[Finding] = []
    if settings.web_config is not None:
        found += check(settings.web_config, [socket.gethostname()])
    if settings.dsn is not None:
        found.append(("BENCH_DSN", *transport(settings.dsn)))
    found = found or [("TLS", True, "neither BENCH_WEB_CONFIG nor BENCH_DSN is set, so there is nothing to check")]
    return [(what, ok, detail if ok else Page.TLS.after(detail)) for what, ok, detail in found]


def _database(settings: Settings) -> Iterator[Finding]:
    unmeasured: list[str] = []
    slow: list[Finding] = []
    try:
        with Database(settings, reading=True) as opened, opened.session() as connection:
            server = ServerStatus.of(connection)
            unmeasured = unmeasured_hosts(connection)
            slow = _slow(connection)
    except BenchError as error:
        server = ServerStatus(False, str(error))
    database, reads = server.and_primary(settings)
    hint = ""
    if database.flavour is Flavour.POSTGRESQL:
        hint = Page.OWN_DATABASE.after(
            "; for long or many runs, set BENCH_DSN to a TimescaleDB Community server, such as of `docker compose up -d`; `bench db move` "
            "brings your runs along"
        )
    yield "database", database.up, database.text + hint
    yield from slow
    if reads is not None:
        yield "reads (BENCH_READ_DSN)", *reads.describe_reads(database)
    for host in unmeasured:
        yield f"host {host}", False, unmeasured_message(host)


def _slow(connection: Connection) -> list[Finding]:
    """Return findings about a slow database: an unused extension, costly settings, failing jobs."""
    missed = extension.advice(connection)
    return [
        *([("TimescaleDB", False, missed)] if missed else []),
        *(("database setting", False, setting.describe()) for setting in costly_settings(connection)),
        *(("background job", False, job.describe()) for job in failing_jobs(connection)),
    ]


def _database_folder(settings: Settings) -> Iterator[Finding]:
    if settings.dsn is None and (kind := network_filesystem(settings.database_dir)):
        detail = f"{settings.database_dir} lies on a network file system ({kind}): set BENCH_HOME to a local folder"
        yield "database folder", False, Page.DATA_FOLDERS.after(detail)


def _gpus(settings: Settings, exporters: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield each GPU, and for each vendor the number of its GPUs and what measures them."""
    found = inventory(settings.simulate, settings.home)
    for gpu in found.gpus:
        yield gpu.label, True, gpu.describe()
    for name in found.vendors:
        vendor = VENDORS[name]
        count = sum(gpu.vendor == name for gpu in found.gpus)
        working = [one for one in vendor.exporters if one in exporters and exporters[one] is None]
        measured = (
            f"measured by {' and '.join(working)}" if working else f"not measured: {exporters.get(vendor.exporters[0])}"
        )
        yield f"{vendor.title} GPUs", bool(working), f"{count}, {measured}"
    if not found.gpus:
        yield "GPUs", False, f"none ({found.reason}); try BENCH_SIMULATE=2xH100"
    elif found.reason:
        yield "GPUs", False, found.reason


def _grafana() -> tuple[bool, str]:
    try:
        found = GrafanaServer.find()
    except BadRequest as error:
        return False, str(error)
    return found is not None, f"{found.home}; `bench up` starts it" if found else Page.GRAFANA.after(HOW_TO_GET_ONE)


def _home(settings: Settings) -> tuple[bool, str]:
    private.make_folder(settings.home)
    free = shutil.disk_usage(settings.home).free
    return os.access(settings.home, os.W_OK) and free > _FREE_BYTES, f"{settings.home}, {free >> 30} GiB free"
