"""The thread that tells the database each second how targets are, and learns which are this collector's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from collector.leases import Leases
from collector.targets import Key, Target
from sql.targets import TargetState

__all__ = ["Reporter"]

_SECONDS = 1.0


class Reporter(threading.Thread):
    """Keeps leases. A thread of its own: the database may take long to answer, and neither scrapes nor writing wait.

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
        super().__init__(name="reporter", daemon=True)
        self._leases, self._wanted, self._follow = leases, wanted, follow
        self._stopping = threading.Event()
        self.states: Mapping[int, TargetState] = {}

    def stop(self, timeout: float = 5.0) -> None:
        """Report once more, let go of all targets and end, in `timeout` seconds at most; safe to call twice."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout)

    def run(self) -> None:
        """Report until stopped."""
        while not self._stopping.wait(_SECONDS):
            self._leases.keep(self._wanted(), self.states)
            self._follow(self._leases.held)
            self._leases.let_go()
        self._leases.release(self.states)
