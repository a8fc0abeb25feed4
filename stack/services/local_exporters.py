"""Targets of the local collector: itself, this home's exporters, and the host's announced exporters."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hypergauge.collector.discovery.announced import announced, reachable
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.files.stamps import stamp_of
from hypergauge.core.services import Service, Stack
from hypergauge.sql.ingest.targets import site_listeners
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from hypergauge.collector.discovery.targets import Key, Target

__all__ = ["LocalExporters", "announced_here", "answers", "measured_here"]

# Two changes of a folder within this time may have the same modification time.
_SETTLED_SECONDS = 1.0
# Interval at which the collector scrapes itself; its metrics change slowly.
_OWN_SECONDS = 10.0
# Interval of queries for announcements.
_ANNOUNCED_SECONDS = 5.0
_ANSWER_SECONDS = 2.0


def announced_here(database: Database, settings: Settings) -> dict[str, str]:
    """Return the URLs of this host's announced exporters by name, without those that each home runs itself.

    Raises
    ------
    DatabaseUnavailable
        The database does not answer.
    """
    if database.embedded:  # no other home uses it
        return {}
    here = socket.gethostname()
    return {
        one.listener: one.url
        for one in reachable(announced(database))
        if one.host == here and not _is_own(one.listener, settings.simulate)
    }


def measured_here(database: Database, settings: Settings) -> set[str]:
    """Return the names of this host's exporters that the site has: announced and answering, or scraped by its collector.

    Raises
    ------
    DatabaseUnavailable
        The database does not answer.
    """
    if database.embedded:
        return set()
    found = {name for name, url in announced_here(database, settings).items() if answers(url)}
    with database.session() as connection:
        scraped = site_listeners(connection, socket.gethostname())
    return found | {name for name in scraped if not _is_own(name, settings.simulate)}


def answers(url: str) -> bool:
    """Return whether an exporter can be scraped without a login."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=_ANSWER_SECONDS):  # noqa: S310 - as announced
        return True
    return False


def _is_own(exporter: str, simulate: str | None) -> bool:
    """Return whether an exporter measures one home and not the host: processes or simulated GPUs.

    Users who share a host and a database each have a stack.
    """
    return exporter == "process" or (simulate is not None and exporter in ("nvml", "dcgm"))


class LocalExporters:
    """Targets of a stack: its exporters and its collector, updated when the stack changes.

    With a `database` also the host's announced exporters. Leases leave those to a collector of the site that scrapes them.
    """

    def __init__(self, settings: Settings, database: Database | None = None) -> None:
        self._settings, self._database = settings, database
        self._stamp: object = None
        self._targets: Mapping[Key, Target] = {}
        self._announced: Mapping[Key, Target] = {}
        self._queried_at = float("-inf")

    def __call__(self) -> Mapping[Key, Target]:
        """Return the current targets by key."""
        own = self._own()
        announced = self._announced_targets()
        return {**announced, **own} if announced else own

    def _announced_targets(self) -> Mapping[Key, Target]:
        from hypergauge.collector.discovery.targets import Target

        if self._database is not None and time.monotonic() - self._queried_at >= _ANNOUNCED_SECONDS:
            self._queried_at = time.monotonic()
            with contextlib.suppress(BenchError):  # keep the known announcements
                host, interval = socket.gethostname(), self._settings.interval
                found = announced_here(self._database, self._settings)
                targets = [Target(url, host, name, "", {}, interval) for name, url in found.items()]
                self._announced = {target.key: target for target in targets}
        return self._announced

    def _own(self) -> Mapping[Key, Target]:
        began = time.time()
        stamp = stamp_of(self._settings.stack_dir)
        if stamp is None or stamp != self._stamp:
            self._targets = {target.key: target for target in self._read()}
            settled = stamp is not None and began - stamp[0] / 1e9 > _SETTLED_SECONDS
            self._stamp = stamp if settled else None
        return self._targets

    def _read(self) -> list[Target]:
        from hypergauge.collector.discovery.targets import Target

        host = socket.gethostname()
        services = Stack(self._settings).services()
        found = [
            Target(service.url, host, exporter, self._owner(exporter, service), {}, self._settings.interval)
            for name, service in services.items()
            if (exporter := name.removeprefix("exporter-")) != name
        ]
        if (own := services.get("collector")) is not None:
            every = max(_OWN_SECONDS, self._settings.interval)
            found.append(Target(own.url, host, "collector", str(self._settings.home), {}, every))
        return found

    def _owner(self, exporter: str, service: Service) -> str:
        """Return the home that an exporter belongs to; empty if it measures the host."""
        return str(self._settings.home) if _is_own(exporter, service.simulate) else ""
