"""Warning about hosts on which runs go unmeasured."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from rich.markup import escape

from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.targets import unmeasured_hosts
from hypergauge.sql.server.database import Database

__all__ = ["unmeasured_message", "watching_unmeasured"]

# Longer than exporters and their collector take to begin.
_LOOK_SECONDS = 10.0


def unmeasured_message(host: str) -> str:
    """Return what is wrong with a host, and what the user can do."""
    return f"no exporter of {host} answers while it has runs: start exporters there, or add them to the targets file"


@contextlib.contextmanager
def watching_unmeasured(
    database: Database, running: Callable[[], list[str]], say: Callable[[str], None]
) -> Iterator[None]:
    """Warn about each host of the running runs that no exporter measures, once each time that this begins.

    Parameters
    ----------
    running
        Returns the ids of the running runs.
    say
        Takes a line in rich's markup.
    """
    known: set[str] = set()

    def look() -> None:
        nonlocal known
        if ids := running():
            with database.session() as connection:
                found = set(unmeasured_hosts(connection, ids))
            for host in sorted(found - known):
                say(f"[yellow]![/] {escape(unmeasured_message(host))}")
            known = found

    looks = Periodic("hosts without exporters", look, _LOOK_SECONDS, level=logging.INFO).start()
    try:
        yield
    finally:
        looks.end(timeout=0)
