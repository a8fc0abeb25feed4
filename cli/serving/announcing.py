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

# Between two looks at whether to announce it again, and so between two attempts while the database is away.
_LOOK_SECONDS = 10.0
# An exporter that nobody has asked for so long may have been withdrawn, because nobody could reach it.
_UNASKED_SECONDS = 60.0
# Others than our collectors may ask it. Of three thousand exporters this is five connections a second.
_AGAIN_SECONDS = 600.0

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::[0-9]{1,5})?", re.ASCII)


def announced_url(served: str, said: str | None) -> str:
    """Return where others reach what is served at `served`.

    Parameters
    ----------
    said
        A URL, or a host or ``host:port`` to be put into that of `served`; by default the address that is listened on, and
        where that is every address, this host's name.

    Raises
    ------
    BadRequest
        `said` is neither.
    """
    url = urlsplit(served)
    if said is None:
        return url._replace(netloc=f"{socket.gethostname()}:{url.port}").geturl() if _is_any(url) else served
    if _HOST.fullmatch(said):
        port = "" if re.search(r":[0-9]+$", said) else f":{url.port}"
        return url._replace(netloc=said + port).geturl()
    with contextlib.suppress(ValueError):
        other = urlsplit(said)
        if other.scheme in ("http", "https") and other.hostname and other.port != 0 and other.username is None:
            return said
    raise BadRequest(
        f"--announce {without_login(said)!r} is no place where a listener is reached: "
        "write host, host:port or http://host:port/metrics"
    )


def _is_any(url: SplitResult) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(url.hostname or "").is_unspecified
    return False


class Announcer:
    """Keeps an exporter announced as far as the database answers; where that is away, the exporter works all the same.

    Use it as a context. There is no connection in between: of thousands of exporters these would be too many.
    """

    def __init__(self, settings: Settings, server: ExporterServer, url: str) -> None:
        self._database, self._server = Database(settings), server
        self._one = Announcement(socket.gethostname(), server.exporter.name, url)
        self._announced_at = float("-inf")
        name = f"announcement of exporter {server.exporter.name!r}"
        self._announcements = Periodic(name, self._announce, _LOOK_SECONDS, at_once=True)

    def __enter__(self) -> Self:
        self._announcements.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._announcements.end()
        try:
            withdraw(self._database, self._one)
        except BenchError as error:
            _log.warning("exporter %r stays announced until a collector misses it: %s", self._one.listener, error)

    def _announce(self) -> None:
        ago = time.monotonic() - self._announced_at
        if ago > _AGAIN_SECONDS or min(ago, self._server.unasked_seconds) > _UNASKED_SECONDS:
            announce(self._database, self._one)
            self._announced_at = time.monotonic()
