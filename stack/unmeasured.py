"""Warning about hosts with unmeasured runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from rich.markup import escape

from hypergauge.core.pages import Page
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.targets import unmeasured_hosts
from hypergauge.sql.server.database import Database

__all__ = ["unmeasured_message", "watching_unmeasured"]

# Longer than the start of exporters and collector.
_LOOK_SECONDS = 10.0


def unmeasured_message(host: str) -> str:
    """Return the warning about a host, with the remedy."""
    return Page.TARGETS.after(
        f"no exporter of {host} answers while it has runs: start exporters there, or add them to the targets file"
    )


@contextlib.contextmanager
def watching_unmeasured(
    database: Database, running: Callable[[], list[str]], notify: Callable[[str], None]
) -> Iterator[None]:
    """Warn about each host of running runs without an exporter that answers, once per outage.

    Parameters
    ----------
    running
        Function that returns the ids of running runs.
    notify
        Receiver of messages in rich's markup.
    """
    known: set[str] = set()

    def look() -> None:
        nonlocal known
        if ids := running():
            with database.session() as connection:
                found = set(unmeasured_hosts(connection, ids))
            for host in sorted(found - known):
                notify(f"[yellow]![/] {escape(unmeasured_message(host))}")
            known = found

    looks = Periodic("hosts without exporters", look, _LOOK_SECONDS, level=logging.INFO).start()
    try:
        yield
    finally:
        looks.end(timeout=0)
