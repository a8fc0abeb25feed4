"""Warning about hosts on which runs go unmeasured."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from rich.markup import escape

from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.ingest.targets import unmeasured_hosts
from hypergauge.sql.server.database import Database

__all__ = ["telling_unmeasured", "unmeasured_words"]

# Longer than exporters and their collector take to begin.
_LOOK_SECONDS = 10.0


def unmeasured_words(host: str) -> str:
    """Return what is wrong with a host, and what can be done about it."""
    return f"runs go on at {host}, and no exporter of it answers: start them there, or name them in the targets"


@contextlib.contextmanager
def telling_unmeasured(
    database: Database, running: Callable[[], list[str]], say: Callable[[str], None]
) -> Iterator[None]:
    """Say of each host of the runs that go on that nothing is measured there, once each time that this comes about.

    `say` takes a line in rich's markup.
    """
    known: set[str] = set()

    def look() -> None:
        nonlocal known
        if ids := running():
            with database.session() as connection:
                found = set(unmeasured_hosts(connection, ids))
            for host in sorted(found - known):
                say(f"[yellow]![/] {escape(unmeasured_words(host))}")
            known = found

    looks = Periodic("hosts without exporters", look, _LOOK_SECONDS, level=logging.INFO).start()
    try:
        yield
    finally:
        looks.end(patience=0)
