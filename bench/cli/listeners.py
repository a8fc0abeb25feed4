"""What the local collector scrapes: the listeners of this home's stack, as they come and go, and itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.config import Settings
from bench.services import Service, Stack
from bench.stamps import stamp_of

if TYPE_CHECKING:
    from collector.targets import Key, Target

__all__ = ["LocalListeners"]

# A folder that has just changed may change again before its time of change does.
_SETTLED_SECONDS = 1.0
# Seconds between two scrapes of the collector by itself: what it says of itself changes slowly.
_OWN_SECONDS = 10.0


class LocalListeners:
    """The listeners of a stack, and its collector; what the stack has written down is read again when it has changed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stamp: object = None
        self._targets: Mapping[Key, Target] = {}

    def __call__(self) -> Mapping[Key, Target]:
        """Return the targets of now, by key."""
        began = time.time()
        stamp = stamp_of(self._settings.stack_dir)
        if stamp is None or stamp != self._stamp:
            self._targets = {target.key: target for target in self._read()}
            settled = stamp is not None and began - stamp[0] / 1e9 > _SETTLED_SECONDS
            self._stamp = stamp if settled else None
        return self._targets

    def _read(self) -> list[Target]:
        from collector.targets import Target

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
        """Return whose the listener's figures are: the host's, which are measured by whoever is first, or the home's.

        People who share a host and a database have a stack each: processes and simulated GPUs are each one's own.
        """
        own = listener == "process" or (service.simulate is not None and listener in ("nvml", "dcgm"))
        return str(self._settings.home) if own else ""
