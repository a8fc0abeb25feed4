"""Hostile targets: they cost no other target, each fault is counted, and no sample is lost."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hypergauge.core.services import free_port
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting, group
from tests.support.exporters.misbehaving import BadExporters, black_hole
from tests.support.waiting import wait_for

# What is shown here is in front of the database: one flavour will do.
pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

INTERVAL = 2.0
HOSTILE = (
    "hang", "trickle", "trickled_head", "die", "redirect", "huge", "garbage", "half", "half_chunked", "half_unframed",
    "half_openmetrics", "compressed", "not_http", "error",
)  # fmt: skip


def write(path: Path, groups: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(groups))
    return path


def rows(dsn: str, metric: str = "served") -> dict[str, list[float]]:
    """Return the times of all samples of a metric by instance, and see that the aggregates hold as many."""
    with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
        found = connection.execute(
            """
            select instance, array_agg(extract(epoch from time)::float8 order by time),
                   (select sum(n) from samples_10s where series_id = s.series_id),
                   (select sum(n) from samples_1m where series_id = s.series_id),
                   (select sum(n) from samples_10m where series_id = s.series_id)
            from samples join series s using (series_id) join targets using (target_id) where metric = %s
            group by instance, s.series_id
            """,
            (metric,),
        ).fetchall()
    assert all(len(times) == n10s == n1m == n10m for _, times, n10s, n1m, n10m in found)
    return {instance: times for instance, times, *_ in found}


def longest_gap(times: list[float]) -> float:
    return max(later - earlier for earlier, later in itertools.pairwise(times))


OUTCOMES = {
    "ok", "timeout", "disconnected", "redirects", "body_size_limit", "garbage", "cut_short", "encoding", "protocol", "status",
    "connect",
}  # fmt: skip


@pytest.mark.slow
def test_hostile_targets_cost_no_other(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    with BadExporters() as bad, black_hole() as hole:
        address = f"127.0.0.1:{bad.port}"
        paths = [*HOSTILE, "repeat", "jump", "large", *(f"good/{number}" for number in range(5))]
        groups = [group(address, __metrics_path__=f"/{path}", instance=path) for path in paths]
        groups += [group(f"127.0.0.1:{hole}", instance="hole"), group(f"127.0.0.1:{free_port()}", instance="closed")]
        targets = write(tmp_path / "targets.json", groups)
        with Collecting(dsn, new_folder() / "hostile", targets, ["--interval", str(INTERVAL)]) as collector:
            wanted = dict.fromkeys(("/jump", "/good/0", "/good/4"), 9) | dict.fromkeys(
                (f"/{path}" for path in HOSTILE), 4
            )
            wait_for(lambda: all(bad.requests[path] >= count for path, count in wanted.items()), "9 rounds")
            wait_for(
                lambda: all(collector.metric("scrapes_total").get(one) for one in OUTCOMES), "the count of each outcome"
            )
            outcomes = collector.metric("scrapes_total")
            dropped = collector.metric("dropped_lines_total")
            retimed = collector.metric("retimed_lines_total")
            memory = collector.peak_memory()
            collector.stop()

    assert {reason for reason, count in outcomes.items() if count} == OUTCOMES
    assert dropped["repeated"] >= 2 * 8
    assert dropped["stale"] > 0
    assert retimed[""] > 0
    assert memory < 400 << 20

    found = rows(dsn)
    for path in [f"good/{number}" for number in range(5)]:
        assert len(found[path]) == len(bad.served[f"/{path}"]), "each served exposition is stored"
        assert longest_gap(found[path]) <= 2 * INTERVAL, "no scrape is more than an interval late"
    assert len(found["repeat"]) == len(bad.served["/repeat"]), "a duplicate series counts once"
    assert max(found["jump"]) <= bad.served["/jump"][-1] + 1, "no sample is in the future"
    assert len(found["jump"]) >= len(bad.served["/jump"]) * 2 // 3, "no sample blocks later ones"
    assert not rows(dsn, "half")
    assert not rows(dsn, "huge")
    with psycopg.connect(dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public") as connection:
        up: dict[str, bool] = dict(connection.execute("select instance, up from targets").fetchall())
    assert {instance for instance, is_up in up.items() if not is_up} == {*HOSTILE, "hole", "closed"}


@pytest.mark.slow
def test_a_thousand_targets_half_of_them_dead(dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    interval = 5.0
    with BadExporters() as bad, black_hole() as hole:
        closed = free_port()
        groups = [
            group(f"127.0.0.1:{bad.port}", __metrics_path__=f"/good/{number}", instance=number) for number in range(500)
        ]
        groups += [group(f"127.0.0.1:{closed}", instance=f"closed-{number}") for number in range(250)]
        groups += [group(f"127.0.0.1:{hole}", instance=f"hole-{number}") for number in range(125)]
        groups += [
            group(f"127.0.0.1:{bad.port}", __metrics_path__=f"/hang/{number}", instance=f"hang-{number}")
            for number in range(125)
        ]
        targets = write(tmp_path / "targets.json", groups)
        with Collecting(dsn, new_folder() / "thousand", targets, ["--interval", str(interval)]) as collector:
            wait_for(
                lambda: all(len(bad.served[f"/good/{number}"]) >= 4 for number in range(500)),
                "four rounds of all that live",
                110,
            )
            wait_for(
                lambda: collector.metric("targets") == {"up": 500, "down": 500, "taken": 0, "paused": 0}, "all states"
            )
            memory = collector.peak_memory()
            collector.stop()
    assert memory < 400 << 20
    found = rows(dsn)
    missing = [len(bad.served[f"/good/{number}"]) - len(found.get(str(number), [])) for number in range(500)]
    # A collector that is stopped waits for its pending requests, though not as long as a drowned machine may take.
    assert set(missing) <= {0, 1}
    assert max(longest_gap(times) for times in found.values()) <= 2 * interval
