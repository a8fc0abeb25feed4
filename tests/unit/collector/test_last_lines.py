"""Counters across a restart of the collector: what they gained meanwhile counts once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape import scraped_target
from hypergauge.collector.scrape.last_lines import LastLines
from hypergauge.collector.scrape.resumption import Resumption, newest_samples
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.collector.spool.records import SpoolRecord
from tests.support.collector.scraped_target import target

RUN = "0" * 31 + "1"
SECONDS = "bench_process_cpu_seconds_total"
TYPES = f"# TYPE a_total counter\n# TYPE node_a_total counter\n# TYPE {SECONDS} counter\n"


class Life:
    """A process of the collector, with one target."""

    def __init__(self, folder: Path, began: float, held_since: float = 0.0, newest: SpoolRecord | None = None) -> None:
        self.newest: SpoolRecord | None = None
        last_lines = LastLines(folder, target().key)
        resumption = Resumption.read(last_lines, newest_samples(newest), held_since, began)
        self.scraped = ScrapedTarget(
            target(), 7, Definitions(), CollectorMetrics(), began, last_lines=last_lines, resumption=resumption
        )

    def take(self, at: float, *lines: str, saved: bool = True) -> list[tuple[str, float, float, float]]:
        """Scrape, and return metric, time, increase and seconds of each sample of a counter."""
        exposition = TYPES + "\n".join([*lines, ""])
        record = self.scraped.take(self.scraped.parse(exposition.encode()), at, at, at)
        if saved:
            assert self.scraped.saving is not None
            self.scraped.saving()
        if record is None:
            return []
        self.newest = record
        columns = (record.refs, record.times, record.values * record.dts, record.dts)
        return [
            (record.series[ref].metric, time, round(increase, 3), round(seconds, 3))
            for ref, time, increase, seconds in zip(*(column.tolist() for column in columns), strict=True)
            if record.series[ref].metric.endswith("_total")
        ]


def test_a_counter_continues_after_a_kill(tmp_path: Path) -> None:
    first = Life(tmp_path, 1000)
    assert first.take(1000, "a_total 5", "b 1") == []
    assert first.take(1001, "a_total 7.1", "b 1") == [("a_total", 1001, 2.1, 1)]
    second = Life(tmp_path, 1019.5)
    assert second.take(1020, "a_total 16.2", "b 1") == [("a_total", 1020, 9.1, 19)]
    assert second.take(1021, "a_total 17", "b 1") == [("a_total", 1021, 0.8, 1)]
    third = Life(tmp_path, 1030)
    assert third.take(1031, "a_total 20") == [("a_total", 1031, 3, 10)]


def test_a_kill_before_a_scrape_changes_nothing(tmp_path: Path) -> None:
    Life(tmp_path, 1000).take(1000, "a_total 5")
    Life(tmp_path, 1010)
    assert Life(tmp_path, 1020).take(1020, "a_total 9") == [("a_total", 1020, 4, 20)]


def test_a_kill_between_record_and_state_counts_nothing_twice(tmp_path: Path) -> None:
    first = Life(tmp_path, 1000)
    first.take(1000, "a_total 5", "b 1")
    assert first.take(1001, "a_total 7", "b 1", saved=False) == [("a_total", 1001, 2, 1)]
    second = Life(tmp_path, 1010, newest=first.newest)
    assert second.take(1011, "a_total 10", "b 1") == [("a_total", 1011, 3, 10)]


@pytest.mark.parametrize(
    ("lines", "increases"),
    [
        (["a_total 3", "node_a_total 3"], []),  # both have started over
        (["a_total 9", "node_a_total 9", "node_boot_time_seconds 1010"], []),
        (["a_total 9", "node_a_total 9", "process_start_time_seconds 1010"], [("node_a_total", 4)]),
        (["a_total 9", "node_a_total 9", "process_start_time_seconds 900"], [("a_total", 4), ("node_a_total", 4)]),
    ],
)
def test_a_counter_that_has_started_over_meanwhile_begins_anew(
    tmp_path: Path, lines: Sequence[str], increases: Sequence[tuple[str, float]]
) -> None:
    Life(tmp_path, 1000).take(1000, "a_total 5", "node_a_total 5")
    second = Life(tmp_path, 1020)
    assert [(metric, increase) for metric, _, increase, _ in second.take(1020, *lines)] == increases


def test_another_collectors_samples_are_not_counted_again(tmp_path: Path) -> None:
    """The target was another collector's, and came back at 1010."""
    Life(tmp_path, 1000).take(1000, "a_total 5")
    assert Life(tmp_path, 1020, held_since=1010).take(1020, "a_total 9") == []


def test_a_state_of_the_future_is_not_used(tmp_path: Path) -> None:
    Life(tmp_path, 1000).take(1000, "a_total 5")
    second = Life(tmp_path, 500)  # the clock was set back
    assert second.take(500, "a_total 9") == []
    assert second.take(501, "a_total 10") == [("a_total", 501, 1, 1)]


def test_a_state_that_is_written_after_the_cache_was_cleared_does_not_mix_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraped_target, "_MOST_CACHED", 0)
    first = Life(tmp_path, 1000)
    first.take(1000, *(f'a_total{{n="{n}"}} 5' for n in range(500)))
    first.take(1001, 'a_total{n="499"} 6', saved=False)
    late = first.scraped.saving
    assert late is not None
    first.take(1002, 'a_total{n="499"} 7', saved=False)  # with a cleared cache
    late()
    assert first.scraped.saving is not None
    first.scraped.saving()
    assert Life(tmp_path, 1009).take(1010, 'a_total{n="499"} 9') == [("a_total", 1010, 2, 8)]


def test_damaged_files_are_no_state(tmp_path: Path) -> None:
    Life(tmp_path, 1000).take(1000, "a_total 5")
    for path in tmp_path.glob("*.names"):
        path.write_bytes(path.read_bytes()[:12] + b"\n")
    assert Life(tmp_path, 1010).take(1010, "a_total 9") == []


def run_lines(seconds: float, *, started: float = 900.0, ended: float | None = None) -> list[str]:
    label = f'{{run_id="{RUN}"}}'
    lines = [f"bench_process_start_time_seconds{label} {started}", f"{SECONDS}{label} {seconds}"]
    return lines if ended is None else [*lines, f"bench_process_end_time_seconds{label} {ended}"]


def test_a_run_that_ended_while_the_collector_was_away_has_its_total(tmp_path: Path) -> None:
    first = Life(tmp_path, 890)
    first.take(899, "b 1")
    assert first.take(901, *run_lines(2, started=899.5)) == [(SECONDS, 901, 2, 1.5)]
    second = Life(tmp_path, 920)
    assert second.take(921, *run_lines(12, started=899.5, ended=910)) == [(SECONDS, 909.999, 10, 8.999)]


def test_a_run_within_the_gap_has_its_total(tmp_path: Path) -> None:
    Life(tmp_path, 890).take(899, "b 1")
    second = Life(tmp_path, 920)
    assert second.take(921, *run_lines(12, started=905, ended=915)) == [(SECONDS, 914.999, 12, 9.999)]
    assert second.take(922, *run_lines(12, started=905, ended=915)) == []


def test_a_run_that_ended_before_is_not_counted_again(tmp_path: Path) -> None:
    first = Life(tmp_path, 890)
    first.take(899, "b 1")
    first.take(905, *run_lines(2))
    first.take(911, *run_lines(12, ended=910))
    assert Life(tmp_path, 912).take(913, *run_lines(12, ended=910)) == []


def test_a_runs_counter_that_comes_later_began_after_the_last_scrape(tmp_path: Path) -> None:
    first = Life(tmp_path, 890)
    first.take(899, "b 1")
    first.take(905, *run_lines(2))
    other = f'bench_gpu_attributed_energy_joules_total{{run_id="{RUN}"}} 50'
    samples = Life(tmp_path, 920).take(925, *run_lines(4), other)
    assert ("bench_gpu_attributed_energy_joules_total", 925, 50, 20) in samples


def test_a_target_that_is_removed_leaves_no_files(tmp_path: Path) -> None:
    first = Life(tmp_path, 1000)
    first.take(1000, "a_total 5")
    first.scraped.forget()
    assert list(tmp_path.iterdir()) == []
    first, successor = Life(tmp_path, 1000), Life(tmp_path, 1010)
    first.take(1000, "a_total 5")
    successor.take(1010, "a_total 6")
    first.scraped.forget()
    assert Life(tmp_path, 1020).take(1020, "a_total 9") == [("a_total", 1020, 3, 10)]


def test_ever_changing_series_do_not_fill_the_disk(tmp_path: Path) -> None:
    life = Life(tmp_path, 1000)
    life.scraped.parser._forget_after = 10
    for scrape in range(200):
        life.take(1000 + scrape, *(f'a_total{{n="{scrape * 20 + n}"}} 1' for n in range(20)), "b_total 5")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 400_000
    assert ("b_total", 1300, 2, 101) in Life(tmp_path, 1300).take(1300, "b_total 7")
