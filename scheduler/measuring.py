"""Wait of a workload until its host's collectors follow its choice of exporters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hypergauge.sql.ingest.choices import are_followed
from hypergauge.sql.server.session import Session

__all__ = ["await_choices"]

# Collectors look once a second. A busy one may be late.
_LONGEST_SECONDS = 5.0
_LOOK_SECONDS = 0.02


def await_choices(session: Session, run_ids: Sequence[str], notify: Callable[[str], None]) -> None:
    """Wait until the exporters that pending runs chose measure their host, and no others.

    After some seconds the runs start anyway, and `notify` gets a message. There is no wait on a host where no run has a
    choice.
    """
    give_up = time.monotonic() + _LONGEST_SECONDS
    while not session(are_followed, run_ids):
        if time.monotonic() > give_up:
            notify("the collector does not follow the listeners of this workload yet; it measures the start as before")
            return
        time.sleep(_LOOK_SECONDS)
