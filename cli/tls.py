"""Command ``doctor --tls``: a check of the configured certificates."""

from __future__ import annotations

import socket

from hypergauge.core.config.settings import Settings
from hypergauge.core.http.checks import Finding, check
from hypergauge.sql.server.transport import transport

__all__ = ["findings"]


def findings(settings: Settings) -> list[Finding]:
    """Return findings on the ``web.yml`` and on the connection to the database."""
    found: list[Finding] = []
    if settings.web_config is not None:
        found += check(settings.web_config, [socket.gethostname()])
    if settings.dsn is not None:
        found.append(("BENCH_DSN", *transport(settings.dsn)))
    return found
