"""Reporter of target states to the database, once a second. It also learns which targets are this collector's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.collector.sharing.leases import Leases
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.targets import TargetState

__all__ = ["Reporter"]

_SECONDS = 1.0


class Reporter:
    """Keeps leases, in the background: the database may take long to answer, and neither scrapes nor writing wait.

    Parameters
    ----------
    wanted
        Says which targets there are by now.
    follow
        Is told which of them this collector has, and returns when it scrapes no others; called in this thread.

    Attributes
    ----------
    states
        How targets are, by their ids in the database; replaced by whoever scrapes.
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
        """Report from now on."""
        self._reports.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Report once more and let go of all targets; what is under way gets `timeout` seconds. Safe to call twice."""
        if self._reports.end(timeout):
            self._leases.release(self.states)

    def _report(self) -> None:
        self._leases.keep(self._wanted(), self.states)
        self._follow(self._leases.held)
        self._leases.let_go()
