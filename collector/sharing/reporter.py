"""Reporter of target states to the database, once a second; it also learns which targets to scrape, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.collector.sharing.leases import Leases
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.targets import TargetState

__all__ = ["Reporter"]

_SECONDS = 1.0


class Reporter:
    """Periodic report of target states, with the renewal of leases. A slow database delays neither scrapes nor writes.

    Parameters
    ----------
    wanted
        Returns the current targets.
    follow
        Called in the reporter's thread with the targets to scrape; returns when no others are scraped.

    Attributes
    ----------
    states
        States of targets by their ids in the database; the scraper replaces them.
    """

    def __init__(
        self,
        leases: Leases,
        wanted: Callable[[], Mapping[Key, Target]],
        follow: Callable[[Mapping[int, Target]], None],
    ) -> None:
        self._leases, self._wanted, self._follow = leases, wanted, follow
        self._reports = Periodic("reports of targets", self._report, _SECONDS)
        self.states: Mapping[int, TargetState] = {}

    def start(self) -> None:
        """Start to report."""
        self._reports.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Report a last time and release all targets; safe to call twice.

        The current report may take `timeout` seconds.
        """
        if self._reports.end(timeout):
            self._leases.release(self.states)

    def _report(self) -> None:
        self._leases.keep(self._wanted(), self.states)
        scraped = self._leases.needed
        self._follow(scraped)
        self._leases.confirm(scraped)
        self._leases.let_go()
