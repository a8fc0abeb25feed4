"""A full disk under the spool and the database: losses are counted, the oldest first, and work continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.data.account import LIMIT_SECONDS, Account
from tests.support.data.spools import fill_spool
from tests.support.disks import fill, small_disk
from tests.support.exporters.scripted import Collector, scripted
from tests.support.servers.databases import own_server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20


@pytest.fixture
def folder(new_folder: NewFolder) -> Path:
    """A folder of the test's own."""
    return new_folder()


def test_a_full_disk_under_the_spool_loses_the_oldest_and_counts_them(flavour: Flavour, folder: Path) -> None:
    home = folder / "home"
    with (
        own_server(flavour, folder / "server") as server,
        small_disk(home / "spool", 16 * MEGABYTE) as disk,
        scripted(home, server.dsn, width=1000) as (exporter, collector),
    ):
        account = Account(server.dsn)
        scrapes, series = 1000, 500
        fill_spool(server.dsn, home, scrapes, series)  # a segment of 8 MiB, and one of half that
        with server.copy_awaited():
            collector.start()
        server.stop("fast")
        ballast = fill(disk, leave=MEGABYTE // 2)
        wait_for(lambda: collector.alive and lost(collector) > 0, "a loss that is counted", LIMIT_SECONDS)
        ballast.unlink()
        collector.wait_for_scrapes(exporter, 3)
        server.start()
        account.wait_for_scrapes(exporter)
        backlog = "select count(*), min(value) from samples join series using (series_id) where metric = 'backlog'"

        def newer() -> int | None:
            """Return how many scrapes of the backlog are kept, once all the others are counted."""
            # Records in flight at the stop are counted after the database has reported them missing.
            kept = scrapes - int(lost(collector)) // series
            return kept if account.query(backlog) == [(kept * series, scrapes - kept)] else None

        kept = wait_for(newer, "the newer of the backlog", LIMIT_SECONDS)
        assert 0 < kept < scrapes
        assert lost(collector) == (scrapes - kept) * series
        collector.stop()
        account.agrees((exporter, 1), others=kept * series)


def lost(collector: Collector) -> float:
    """Return how many samples the collector's spool dropped by its own count."""
    return collector.metrics()["bench_collector_lost_samples_total"]


def test_a_full_disk_under_the_database_loses_nothing(flavour: Flavour, folder: Path) -> None:
    with small_disk(folder / "server", 320 * MEGABYTE) as disk, own_server(flavour, folder / "server") as server:
        account = Account(server.dsn)
        with scripted(folder / "home", server.dsn, width=2000) as (exporter, collector):
            collector.start()
            collector.wait_for_scrapes(exporter, 1)
            account.wait_for_scrapes(exporter)
            ballast = fill(disk, leave=MEGABYTE)
            before = collector.metrics()["bench_collector_write_errors_total"]
            wait_for(
                lambda: collector.metrics()["bench_collector_write_errors_total"] > before,
                "a failed write",
                LIMIT_SECONDS,
            )
            collector.wait_for_scrapes(exporter, 5)
            ballast.unlink()
            # Without room for its log a server gives up; its operator then starts it, but not the collector.
            wait_for(lambda: server.answers or server.ended, "the server, or its end")
            server.start()
            account.wait_for_scrapes(exporter)
            assert collector.metrics()["bench_collector_lost_samples_total"] == 0
            collector.stop()
            account.agrees((exporter, 1))
