"""Two collectors on the same targets: the second one reports a conflict, and takes over when the first ends."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.leases import Leases
from hypergauge.core.config.settings import LEASE_SECONDS
from hypergauge.sql.ingest import targets
from hypergauge.sql.ingest.targets import ClockOffset, TargetRow, TargetState
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting, group
from tests.support.exporters.misbehaving import BadExporters
from tests.support.waiting import wait_for

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

ONE, TWO = (
    TargetRow("n1", "node", "n1:9100", "http://n1:9100/metrics"),
    TargetRow("n2", "node", "", "http://n2:1/metrics"),
)


def target(name: str) -> Target:
    return Target(f"http://{name}:1/metrics", name, "node", f"{name}:1")


def write(path: Path, groups: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(groups))
    return path


def test_a_target_belongs_to_one_collector_until_its_lease_expires(database: Database) -> None:
    with database.session() as connection:
        first = targets.claim_targets(connection, "a", "h1", 11, [ONE])
        assert targets.claim_targets(connection, "a", "h1", 12, [ONE]) == first, (
            "a restarted collector continues at once"
        )
        again, other = targets.claim_targets(connection, "b", "h2", 21, [ONE, TWO])
        assert again is None
        assert other is not None
        [(key, holder)] = [item for item in targets.holders(connection, [ONE, TWO]).items() if item[0][0] == "n1"]
        assert (key, holder.host, holder.pid) == (("n1", "node", "n1:9100"), "h1", 12)
        assert 0 < holder.seconds <= LEASE_SECONDS
        connection.execute("update targets set lease_until = now() - interval '1 s' where host = 'n1'")
        assert targets.claim_targets(connection, "b", "h2", 21, [ONE]) == first
        [mine] = first
        assert mine is not None
        assert targets.report_targets(connection, {mine: TargetState(True, 1.0)}, "a") == [mine], (
            "the first learns of it"
        )
        assert targets.report_targets(connection, {mine: TargetState(True, 5.0)}, "b") == []
        targets.release_targets(connection, "b")
        assert targets.claim_targets(connection, "a", "h1", 12, [ONE, TWO]) == [mine, other]


def test_a_stack_leaves_an_exporter_to_a_collector_that_has_it_by_address(database: Database) -> None:
    stack, own = (
        TargetRow("n1", "host", "", "http://127.0.0.1:5/metrics"),
        TargetRow("n1", "nvml", "/home/x", "http://x"),
    )
    other, addressed = (
        TargetRow("n1", "nvml", "", "http://x"),
        TargetRow("n1", "host", "n1:9701", "http://n1:9701/metrics"),
    )
    with database.session() as connection:
        mine, *_ = targets.claim_targets(connection, "stack", "n1", 11, [stack, own])
        assert mine is not None
        assert targets.claim_targets(connection, "another stack", "n1", 12, [stack]) == [None]
        assert targets.claim_targets(connection, "another stack", "n1", 12, [other]) != [None], (
            "that one was a home's own"
        )
        assert targets.report_targets(connection, {mine: TargetState(True, 1.0)}, "stack") == []
        assert targets.claim_targets(connection, "site", "s", 21, [addressed]) != [None]
        assert targets.report_targets(connection, {mine: TargetState(True, 2.0)}, "stack") == [mine], "it learns of it"
        assert targets.claim_targets(connection, "stack", "n1", 11, [stack, other]) == [None, None]
        assert targets.holders(connection, [stack])["n1", "host", ""].host in ("s", "n1")
        targets.release_targets(connection, "stack")
        assert targets.holders(connection, [stack])["n1", "host", ""].host == "s"
        targets.release_targets(connection, "site")
        assert targets.claim_targets(connection, "stack", "n1", 11, [stack]) == [mine], "it has the lease again"


def test_an_expired_unclaimed_lease_is_renewed(database: Database) -> None:
    with database.session() as connection:
        [mine] = targets.claim_targets(connection, "a", "h1", 11, [ONE])
        assert mine is not None
        connection.execute("update targets set lease_until = now() - interval '1 h'")
        assert targets.report_targets(connection, {mine: TargetState(False)}, "a") == []
        assert targets.claim_targets(connection, "b", "h2", 21, [ONE]) == [None]


def test_reports_of_a_target(database: Database) -> None:
    with database.session() as connection:
        [mine] = targets.claim_targets(connection, "a", "h1", 11, [ONE])
        assert mine is not None

        def report(state: TargetState) -> tuple[object, ...]:
            assert targets.report_targets(connection, {mine: state}, "a") == []
            row = connection.execute(
                "select up, extract(epoch from last_seen)::float8, clock_offset, clock_uncertainty from targets"
            ).fetchone()
            assert row is not None
            return row

        assert report(TargetState()) == (False, None, None, None)
        assert report(TargetState(True, 100.0, 0.25, 0.001)) == (True, 100.0, 0.25, 0.001)
        assert report(TargetState(False)) == (False, 100.0, 0.25, 0.001), "unknown values stay"
        assert targets.clock_offsets(connection) == [], "last_seen is too old"
        connection.execute("update targets set last_seen = now()")
        assert targets.clock_offsets(connection) == [ClockOffset("n1", 0.25, 0.001)]


def test_the_lease_of_an_unscraped_target_is_renewed(database: Database) -> None:
    slow = Target("http://n1:1/metrics", "n1", "node", "n1:1", interval=60.0)
    leases = Leases(database, "a", CollectorMetrics())
    leases.claim({slow.key: slow})
    with database.session() as connection:
        connection.execute("update targets set lease_until = now() + interval '1 s'")
        leases.keep({slow.key: slow}, {})
        assert connection.execute("select lease_until > now() + interval '10 s' from targets").fetchone() == (True,)
    leases.release({})


@pytest.mark.slow
def test_a_restarted_collector_keeps_its_leases(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    with BadExporters() as bad:
        groups = [group(f"127.0.0.1:{bad.port}", __metrics_path__="/good/0", instance="n1")]
        first = Collecting(dsn, new_folder() / "first", write(tmp_path / "targets.json", groups))
        with first:
            wait_for(lambda: bad.requests["/good/0"] > 0, "scrapes")
            first.process.kill()
            first.process.wait()
            earlier = bad.requests["/good/0"]
            first.start()
            wait_for(lambda: bad.requests["/good/0"] > earlier, "scrapes after kill -9, within the old lease")
            assert first.answers()
            first.stop()


@pytest.mark.slow
def test_a_later_conflict_costs_no_other_target(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    with BadExporters() as bad:
        one, two = (
            group(f"127.0.0.1:{bad.port}", __metrics_path__=f"/good/{number}", instance=f"n{number}", job="x")
            for number in range(2)
        )
        first = Collecting(dsn, new_folder() / "one", write(tmp_path / "one.json", [one]))
        second = Collecting(dsn, new_folder() / "two", write(tmp_path / "two.json", [two]))
        with first, second:
            write(second.targets, [two, one])
            wait_for(lambda: second.metric("targets")["taken"] == 1, "the conflict")
            assert "is scraped by the collector with pid" in second.output()
            count = second.metric("scrapes_total")["ok"]
            wait_for(lambda: second.metric("scrapes_total")["ok"] > count + 1, "scrapes of the other target")
            first.stop()
            wait_for(lambda: second.metric("targets") == {"up": 2, "down": 0, "taken": 0, "paused": 0}, "taking over")
            # As if the database had been away for long, and another one had come.
            with psycopg.connect(
                dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public", autocommit=True
            ) as connection:
                connection.execute(
                    "update targets set collector = 'another', lease_until = now() + interval '7 s' where instance = 'n0'"
                )
            wait_for(lambda: second.metric("targets")["taken"] == 1, "the loss")
            wait_for(
                lambda: second.metric("targets") == {"up": 2, "down": 0, "taken": 0, "paused": 0}, "taking it back"
            )
            second.stop()
    with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
        twice = connection.execute("select series_id, time from samples group by 1, 2 having count(*) > 1").fetchall()
    assert twice == []


@pytest.mark.slow
def test_scrapes_continue_without_the_database(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    with BadExporters() as bad:
        groups = [group(f"127.0.0.1:{bad.port}", __metrics_path__="/good/0", instance="n1")]
        collector = Collecting(dsn, new_folder() / "away", write(tmp_path / "targets.json", groups))
        with collector:
            wait_for(lambda: collector.metric("scrapes_total")["ok"] > 1, "scrapes")
            with psycopg.connect(
                dsn, autocommit=True, options="-csearch_path=bench,bench_internal,bench_dashboard,public"
            ) as locking:
                locking.execute("begin")
                locking.execute("lock table targets in access exclusive mode")
                count = collector.metric("scrapes_total")["ok"]
                wait_for(lambda: collector.metric("scrapes_total")["ok"] > count + 3, "scrapes meanwhile")
                locking.execute("rollback")
            collector.stop()


def test_a_target_of_the_sites_collector_is_no_warning(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    addressed = TargetRow("n1", "host", "n1:9701", "http://n1:9701/metrics")
    ours = Target("http://127.0.0.1:5/metrics", "n1", "host", "")
    with database.session() as connection:
        targets.claim_targets(connection, "site", "s", 21, [addressed])
    leases = Leases(database, "stack", CollectorMetrics())
    with caplog.at_level("INFO", "hypergauge.collector.sharing.leases"):
        leases.claim({ours.key: ours})
        leases.close()
    assert leases.held == {}
    [record] = caplog.records
    assert (record.levelname, record.message) == (
        "INFO", "http://127.0.0.1:5/metrics is scraped by the site's collector on s"
    )  # fmt: skip


def test_a_refused_report_ages(database: Database, tmp_path: Path) -> None:
    metrics = CollectorMetrics()
    metrics.reported_at = long_ago = time.monotonic() - 100
    Leases(Database(replace(database.settings, dsn=f"host={tmp_path} dbname=away")), "me", metrics).keep({}, {})
    assert metrics.reported_at == long_ago
    kept = Leases(database, "me", metrics)
    kept.keep({}, {})
    kept.close()
    assert metrics.reported_at > long_ago + 99


@pytest.mark.parametrize("shared", [False, True])
def test_without_the_database_other_collectors_targets_are_not_scraped(
    database: Database, tmp_path: Path, shared: bool
) -> None:
    """With shared targets none is scraped: any may belong to another collector by now."""
    away = Database(replace(database.settings, dsn=f"host={tmp_path} dbname=away"))
    wanted = {one.key: one for one in (target("a"), target("b"))}
    memory = tmp_path / "others.json"
    fresh = Leases(away, "me", CollectorMetrics(), shared=shared, memory=memory)
    fresh.begin(wanted)
    assert fresh.held == {-1: target("a"), -2: target("b")}
    fresh.keep({**wanted, target("c").key: target("c")}, {})
    assert set(fresh.held) == {-1, -2, -3}

    other = Leases(database, "other", CollectorMetrics(), shared=shared)
    other.begin(wanted if shared else {target("a").key: target("a")})
    before = Leases(database, "me", CollectorMetrics(), shared=shared, memory=memory)
    before.begin(wanted)
    before.close()
    other.close()
    again = Leases(away, "me", CollectorMetrics(), shared=shared, memory=memory)
    again.begin(wanted)
    assert list(again.held.values()) == ([] if shared else [target("b")])


@pytest.mark.parametrize("outdated", [False, True])
def test_with_a_read_only_database_targets_are_scraped_and_claimed_later(database: Database, outdated: bool) -> None:
    wanted = {target("a").key: target("a")}

    def do(statement: str) -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only = off")
            connection.execute(statement.format(connection.info.dbname).encode())

    if outdated:
        do("delete from bench_internal.functions_digest")
    do('alter database "{}" set default_transaction_read_only = on')
    leases = Leases(Database(database.settings), "me", CollectorMetrics(), shared=True)
    leases.begin(wanted)
    assert leases.held == {-1: target("a")}
    do('alter database "{}" set default_transaction_read_only = off')
    leases.keep(wanted, {})
    assert list(leases.held.values()) == [target("a")]
    assert min(leases.held) > 0
    leases.close()
