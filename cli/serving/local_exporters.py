"""Targets of the local collector: itself, this home's exporters, and exporters that run on the host anyway."""

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
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from hypergauge.collector.discovery.targets import Key, Target

__all__ = ["LocalExporters", "announced_here", "answers"]

# A folder that has just changed may change again before its time of change does.
_SETTLED_SECONDS = 1.0
# Seconds between two scrapes of the collector by itself: what it says of itself changes slowly.
_OWN_SECONDS = 10.0
# Between two looks at what is announced.
_ANNOUNCED_SECONDS = 5.0
_ANSWER_SECONDS = 2.0


def announced_here(database: Database, settings: Settings) -> dict[str, str]:
    """Return the URLs of the exporters that run on this host as services, by name, without those that each home has its own of.

    Raises
    ------
    DatabaseUnavailable
        The database does not answer.
    """
    if database.embedded:  # nobody else asks it
        return {}
    here = socket.gethostname()
    return {
        one.listener: one.url
        for one in reachable(announced(database))
        if one.host == here and not _is_own(one.listener, settings.simulate)
    }


def answers(url: str) -> bool:
    """Return whether an exporter gives its figures to whoever asks."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=_ANSWER_SECONDS):  # noqa: S310 - as announced
        return True
    return False


def _is_own(listener: str, simulate: str | None) -> bool:
    """Return whether its figures are a home's and not the host's.

    People who share a host and a database have a stack each: processes and simulated GPUs are each one's own.
    """
    return listener == "process" or (simulate is not None and listener in ("nvml", "dcgm"))


class LocalExporters:
    """The exporters of a stack, and its collector; what the stack has written down is read again when it has changed.

    With a `database` also those that the host has announced and the stack does not run itself. A collector of the site that
    has them keeps them.
    """

    def __init__(self, settings: Settings, database: Database | None = None) -> None:
        self._settings, self._database = settings, database
        self._stamp: object = None
        self._targets: Mapping[Key, Target] = {}
        self._announced: Mapping[Key, Target] = {}
        self._asked = float("-inf")

    def __call__(self) -> Mapping[Key, Target]:
        """Return the targets of now, by key."""
        own = self._own()
        announced = self._of_the_host()
        return {**announced, **own} if announced else own

    def _of_the_host(self) -> Mapping[Key, Target]:
        from hypergauge.collector.discovery.targets import Target

        if self._database is not None and time.monotonic() - self._asked >= _ANNOUNCED_SECONDS:
            self._asked = time.monotonic()
            with contextlib.suppress(BenchError):  # what was announced before stays
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
            Target(service.url, host, listener, self._owner(listener, service), {}, self._settings.interval)
            for name, service in services.items()
            if (listener := name.removeprefix("exporter-")) != name
        ]
        if (own := services.get("collector")) is not None:
            every = max(_OWN_SECONDS, self._settings.interval)
            found.append(Target(own.url, host, "collector", str(self._settings.home), {}, every))
        return found

    def _owner(self, listener: str, service: Service) -> str:
        """Return whose the exporter's figures are: the host's, which are measured by whoever is first, or the home's."""
        return str(self._settings.home) if _is_own(listener, service.simulate) else ""
