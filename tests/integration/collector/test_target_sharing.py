"""Several collectors with the same targets: each has a part, and the targets of a killed one are reassigned."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.assignment import Assignment
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.sql.ingest import collectors, targets
from hypergauge.sql.ingest.collectors import Peer
from hypergauge.sql.ingest.targets import TargetRow
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting, group
from tests.support.exporters.misbehaving import BadExporters
from tests.support.waiting import wait_for
from tests.support.world import World

# Collectors have random identities, so their parts differ in size. Of 12 targets, one of three collectors gets none in
# 2.3 % of all cases; of 60 targets, practically never.
TARGETS = 60
# What is left of a dead collector's leases, where a test does not wait for all of it.
LEFT_SECONDS = 3.0


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Targets file with running exporters."""
    with BadExporters() as exporters:
        path = tmp_path / "targets.json"
        groups = [
            group(f"127.0.0.1:{exporters.port}", __metrics_path__=f"/good/{number}", host=f"n{number}")
            for number in range(TARGETS)
        ]
        path.write_text(json.dumps(groups))
        yield path


def all_are_shared(*collectors: Collecting) -> bool:
    """Return whether each collector has targets, and together they have all."""
    shares = [one.metric("targets") for one in collectors]
    return min(share["up"] for share in shares) > 0 and sum(share["up"] for share in shares) == TARGETS


def longest_gap(times: list[float], since: float) -> float:
    """Return the longest gap between scrapes from `since` on."""
    kept = [since, *(at for at in times if at > since)]
    return max(later - sooner for sooner, later in itertools.pairwise(kept))


def test_a_killed_collector_is_replaced(dsn: str, new_folder: NewFolder, file: Path) -> None:
    one, two, three = (Collecting(dsn, new_folder() / name, file) for name in ("one", "two", "three"))
    with one:
        wait_for(lambda: one.metric("targets")["up"] == TARGETS, "all targets at one collector")
        with two:
            wait_for(lambda: all_are_shared(one, two), "two collectors")
            killed = time.time()
            two.process.kill()
            two.process.wait()
        with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
            soon = f"lease_until = least(lease_until, now() + interval '{LEFT_SECONDS} s')"
            connection.execute(f"update targets set {soon} where collector_pid = %s".encode(), (two.process.pid,))
            connection.execute(f"update collectors set {soon} where pid = %s".encode(), (two.process.pid,))
        with three:
            wait_for(lambda: all_are_shared(one, three), "the new collector")
            taken_over = time.time()
            time.sleep(2)
            with two:  # what it had in its spool is written, and no sample of it twice
                wait_for(lambda: all_are_shared(one, two, three), "three collectors")
                for collector in (one, two, three):
                    collector.stop()
    with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
        twice = connection.execute("select series_id, time from samples group by 1, 2 having count(*) > 1").fetchall()
        found = connection.execute(
            "select targets.host, array_agg(distinct extract(epoch from time)::float8) from samples join series using (series_id)"
            " join targets using (target_id) group by 1"
        ).fetchall()
        left = connection.execute("select count(*) from collectors").fetchone()
    assert twice == []
    assert left == (0,), "they have withdrawn"
    times = {host: sorted(at) for host, at in found}
    assert len(times) == TARGETS
    # Until the lease is over, and all are scraped again; then nothing is missed, also while a third one comes back.
    assert max(longest_gap(at, killed - 3) for at in times.values()) < taken_over - killed + 5
    assert "its lease expires" not in one.output() + two.output() + three.output(), "no conflict is logged"


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_collectors_with_other_targets_are_no_peers(database: Database) -> None:
    given = {
        key: Target(f"http://{key[0]}:1/metrics", *key) for key in (("n1", "node", "n1:1"), ("n2", "node", "n2:1"))
    }
    fewer = dict(list(given.items())[:1])
    first, second = Assignment("a"), Assignment("b")
    with database.session() as connection:
        assert first.of(connection, given, renew=True).keys() == given.keys()
        assert second.of(connection, fewer, renew=True).keys() == fewer.keys(), (
            "assigned to it, and to no other one with the same targets"
        )
        theirs = second.of(connection, given, renew=False)
        mine = first.of(connection, given, renew=False)
        assert mine.keys() | theirs.keys() == given.keys()
        assert mine.keys() & theirs.keys() == set()
        connection.execute("update collectors set lease_until = now() - interval '1 s' where source = 'b'")
        assert first.of(connection, given, renew=False).keys() == given.keys(), "its peer has died"
        assert [peer.source for peer in first.peers] == ["a"]
        connection.execute("update collectors set lease_until = now() - interval '2 days' where source = 'b'")
        collectors.renew_collector(connection, Peer("a", "h", 1), "x")
        assert connection.execute("select source from collectors").fetchall() == [("a",)], "its row is deleted"
        first.leave(connection)
        assert connection.execute("select source from collectors").fetchall() == []


def test_samples_after_a_takeover_are_not_written(world: World) -> None:
    now = time.time()
    row = TargetRow("n1", "node", "n1:9100", "http://n1:9100/metrics")
    other = TargetRow("n2", "node", "n2:9100", "http://n2:9100/metrics")
    spool = Spool(world.folder)
    spool.close()
    ids = targets.claim_targets(world.connection, spool.source, "h1", 11, [row, other])
    # It lost the database: its lease has expired, and another collector has one of the two targets.
    world.connection.execute("update targets set lease_until = now() - interval '1 s'")
    targets.claim_targets(world.connection, "another", "h2", 22, [row])
    definitions = {ref: SeriesDefinition(int(target or 0), "up", "gauge", {}) for ref, target in enumerate(ids)}
    times = np.repeat([now - 2, now + 2], 2)
    refs = np.array([0, 1, 0, 1], np.uint32)
    record = SpoolRecord(times, refs, np.arange(4, dtype=np.float64), np.ones(4, np.float32), definitions)
    metrics: CollectorMetrics = world.write(record)
    assert world.connection.execute("select value from samples order by value").fetchall() == [(0.0,), (1.0,), (3.0,)]
    assert metrics.dropped.labels("taken")._value.get() == 1
