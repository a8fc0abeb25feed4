"""Announcement of an exporter's address in the database, withdrawn at its end."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import re
import socket
import time
from typing import Self
from urllib.parse import SplitResult, urlsplit

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.system.periodic import Periodic
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.sql.ingest.announcements import Announcement, announce, withdraw
from hypergauge.sql.server.database import Database

__all__ = ["Announcer", "announced_url"]

_log = logging.getLogger(__name__)

# Interval of checks, and of retries while the database does not answer.
_LOOK_SECONDS = 10.0
# An exporter renews its announcement after this time without a scrape: a collector may have withdrawn it.
_UNSCRAPED_SECONDS = 60.0
# Longest time without renewal, since other programs may scrape the exporter. 3,000 exporters open 5 connections/s.
_RENEWAL_SECONDS = 600.0

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::[0-9]{1,5})?", re.ASCII)


def announced_url(served: str, given: str | None) -> str:
    """Return the URL at which collectors reach an exporter that listens at `served`.

    Parameters
    ----------
    given
        URL, or a host or ``host:port`` to replace that of `served`. By default `served` itself, with this host's name if
        the exporter listens on every address.

    Raises
    ------
    BadRequest
        `given` is neither a URL nor a host.
    """
    url = urlsplit(served)
    if given is None:
        return url._replace(netloc=f"{socket.gethostname()}:{url.port}").geturl() if _is_any(url) else served
    if _HOST.fullmatch(given):
        port = "" if re.search(r":[0-9]+$", given) else f":{url.port}"
        return url._replace(netloc=given + port).geturl()
    with contextlib.suppress(ValueError):
        other = urlsplit(given)
        if other.scheme in ("http", "https") and other.hostname and other.port != 0 and other.username is None:
            return given
    raise BadRequest(
        f"--announce is {without_login(given)!r}, which is not an address of an exporter: "
        "write host, host:port or http://host:port/metrics"
    )


def _is_any(url: SplitResult) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(url.hostname or "").is_unspecified
    return False


class Announcer:
    """Announcement of an exporter, renewed inside its ``with`` block. The exporter also works without the database.

    No connection stays open, since thousands of exporters would need too many.
    """

    def __init__(self, settings: Settings, server: ExporterServer, url: str) -> None:
        self._database, self._server = Database(settings), server
        self._announcement = Announcement(socket.gethostname(), server.exporter.name, url)
        self._announced_at = float("-inf")
        name = f"announcement of exporter {server.exporter.name!r}"
        self._renewal = Periodic(name, self._announce, _LOOK_SECONDS, at_once=True)

    def __enter__(self) -> Self:
        self._renewal.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._renewal.end()
        try:
            withdraw(self._database, self._announcement)
        except BenchError as error:
            _log.warning(
                "exporter %r stays announced until a collector cannot reach it: %s", self._announcement.listener, error
            )

    def _announce(self) -> None:
        ago = time.monotonic() - self._announced_at
        if ago > _RENEWAL_SECONDS or min(ago, self._server.unscraped_seconds) > _UNSCRAPED_SECONDS:
            announce(self._database, self._announcement)
            self._announced_at = time.monotonic()
