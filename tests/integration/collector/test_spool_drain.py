"""An hour's backlog in a damaged spool: all readable samples arrive once, and live ones do not wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import NewFolder
from tests.support.data.account import Account
from tests.support.data.spools import fill_spool
from tests.support.exporters.scripted import Collector, ScriptedExporter, scripted
from tests.support.waiting import wait_for

pytestmark = pytest.mark.flavours

HOUR = 3600
SERIES = 300


@pytest.fixture
def home(new_folder: NewFolder) -> Path:
    """Home of the test."""
    return new_folder() / "home"


@contextmanager
def collecting(home: Path, dsn: str) -> Iterator[tuple[ScriptedExporter, Collector]]:
    """Yield an exporter and a collector that scrapes it."""
    with scripted(home, dsn) as (exporter, collector):
        collector.start()
        collector.wait_for_scrapes(exporter, 1)
        yield exporter, collector


def test_live_samples_precede_an_hours_backlog(dsn: str, home: Path) -> None:
    account = Account(dsn)
    begin = fill_spool(dsn, home, HOUR, SERIES)
    marks = [f"'{begin + second:.0f}'::float8" for second in range(0, HOUR, 100)]
    drained = (
        "select count(*) from samples where series_id = (select series_id from series where metric = 'backlog' "
        f"and labels ->> 'n' = '0') and time = any (select to_timestamp(m) from unnest(array[{','.join(marks)}]) m)"
    )
    live = "select count(*) from samples join series using (series_id) where metric = 'scripted_scrape'"
    with collecting(home, dsn) as (exporter, collector):
        # Queried in this order: what drains meanwhile cannot make it look better than it is.
        wait_for(lambda: collector.alive and account.query(live) != [(0,)], "live samples")
        assert account.query(drained) < [(len(marks),)]
        account.do("call refresh()")  # as its job may at any time: what comes now comes late
        wait_for(lambda: account.query(drained) == [(len(marks),)], "the backlog")
        wait_for(lambda: account.count() >= HOUR * SERIES, "all of the backlog")
        account.wait_for_scrapes(exporter)
        assert collector.metrics()["bench_collector_lost_samples_total"] == 0
        collector.stop()
        account.do("call refresh()")
        account.agrees((exporter, 1), others=HOUR * SERIES)
    assert account.query(
        "select n, sum from (select value as number, count(*) as n, sum(dt) from samples join series using (series_id) "
        "where metric = 'backlog' group by 1) as scrapes group by 1, 2"
    ) == [(SERIES, float(SERIES))]


def test_damage_to_the_spool_costs_only_the_damaged_records(dsn: str, home: Path) -> None:
    account, count, wide = Account(dsn), 1000, 500
    fill_spool(dsn, home, count, wide)
    segments = sorted((home / "spool").glob("*.spool"))
    assert len(segments) > 1  # one to be damaged in the middle, and one to be torn
    content = bytearray(segments[0].read_bytes())
    record = wide * 24
    for position in (0.25, 0.5, 0.75):  # after the definitions, in different records
        content[int(len(content) * position)] ^= 0xFF
    segments[0].write_bytes(content)
    segments[-1].write_bytes(segments[-1].read_bytes()[: -record // 2])
    with collecting(home, dsn) as (exporter, collector):
        wait_for(lambda: account.count() >= (count - 4) * wide, "undamaged records")
        wait_for(lambda: collector.metrics()["bench_collector_damaged_records_total"] == 4, "the count of the damage")
        account.wait_for_scrapes(exporter)
        collector.stop()
        account.agrees((exporter, 1), others=(count - 4) * wide)
    whole = account.query(
        "select count(*) from (select value from samples join series using (series_id) where metric = 'backlog' "
        "group by 1 having count(*) = %s) as scrapes", wide
    )  # fmt: skip
    assert whole == [(count - 4,)]
