"""Discovery of announced exporters that a collector on a given host can reach."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, urlsplit

from hypergauge.core.addresses import is_loopback
from hypergauge.sql.ingest.announcements import Announcement, announcements, withdraw_silent
from hypergauge.sql.server.database import Database

__all__ = ["announced", "labels", "reachable"]

_META = "__meta_announced_"


def announced(database: Database) -> list[Announcement]:
    """Return the announced exporters, without those known to be unreachable.

    Raises
    ------
    DatabaseUnavailable
        The database does not answer.
    """
    with database.session() as connection:
        withdraw_silent(connection)
        return announcements(connection)


def reachable(found: Iterable[Announcement]) -> Iterator[Announcement]:
    """Yield the exporters that this host reaches, the first per host and name.

    An exporter on a loopback address is reachable only from its own host.
    """
    seen: set[tuple[str, str]] = set()
    for one in found:
        away = one.host != socket.gethostname() and is_loopback(urlsplit(one.url).hostname or "")
        if not away and (one.host, one.listener) not in seen:
            seen.add((one.host, one.listener))
            yield one


def labels(one: Announcement) -> dict[str, str]:
    """Return an exporter's labels for relabeling."""
    url = urlsplit(one.url)
    return {
        "__address__": url.netloc,
        "__scheme__": url.scheme,
        "__metrics_path__": url.path,
        **{f"__param_{name}": values[0] for name, values in parse_qs(url.query).items()},
        f"{_META}host": one.host,
        f"{_META}listener": one.listener,
        f"{_META}url": one.url,
        "host": one.host,
        "job": one.listener,
    }
