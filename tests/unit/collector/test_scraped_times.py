"""Times of scraped samples: timestamps of lines, and clocks that differ or are set."""

from __future__ import annotations

import pytest

from tests.support.collector.scraped_target import Scraped, target, value


def test_lines_from_the_future_get_the_scrapes_time() -> None:
    scraped = Scraped(target())
    assert scraped.take("a 1 1000000\nb 1 1000900\nc 1 1500000\n", 1000) == {
        "a{}": (1000, 1), "b{}": (1000.9, 1), "c{}": (1000, 1),
    }  # fmt: skip
    assert scraped.take("c 2\n", 1001)["c{}"] == (1001, 2)
    assert value(scraped.metrics.registry, "bench_collector_retimed_lines_total") == 1


def test_timestamps_are_ignored_unless_honored() -> None:
    assert Scraped(target(honor_timestamps=False)).take("a 1 990000\n", 1000) == {"a{}": (1000, 1)}


def test_the_hosts_clock_is_read() -> None:
    scraped = Scraped(target())
    scrape = scraped.scraped.parse(b"node_time_seconds 1003.5\n")
    scraped.scraped.take(scrape, 1000, 1000.0, 1000.2)
    state = scraped.scraped.state
    assert state.clock_offset == pytest.approx(3.4)
    assert state.clock_uncertainty == pytest.approx(0.1)


def test_samples_of_a_host_with_a_wrong_clock_get_its_time() -> None:
    scraped = Scraped(target(), began=999)
    run = '{run_id="' + "a" * 32 + '"}'
    gauge, counter, of_run = "g{}", "c_total{}", f"bench_x_seconds_total{{run_id={'a' * 32}}}"

    def exposition(now: float, more: str = "") -> str:
        return f"# TYPE c_total counter\nc_total {now * 2}\nnode_time_seconds {now}\ng 5\n{more}"

    assert scraped.take(exposition(1300), 1000)[gauge] == (1000, 5), "one reading does not show a stopped clock"
    assert scraped.take(exposition(1301), 1001).keys() == {gauge, "node_time_seconds{}"}, (
        "counters restart on the new time"
    )
    begun = f"bench_run_start_time_seconds{run} 1301.5\n# TYPE bench_x_seconds_total counter\nbench_x_seconds_total{run} 0.25\n"
    found = scraped.take(exposition(1302, begun), 1002)
    assert (found[gauge], found[counter], found[of_run]) == ((1302, 5), (1302, 2), (1302, 0.5))
    assert scraped.scraped.state.last_seen == 1002, "last_seen is by the collector's clock"
    scraped.take(exposition(1003), 1003)
    assert scraped.take(exposition(1004), 1004)[gauge] == (1004, 5), "the clock was corrected"


@pytest.mark.parametrize("step", [-3600, 3600, -5])
def test_a_clock_step_costs_no_sample(step: int) -> None:
    """The step affects the clock of the collector and its host."""
    scraped = Scraped(target(), began=990)
    run = '{run_id="' + "a" * 32 + '"}'

    def take(even: int, ahead: int, more: str = "") -> dict[str, tuple[float, float]]:
        exposition = f"# TYPE c_total counter\nc_total {even * 2}\nnode_time_seconds {even + ahead}\ng {even}\n{more}"
        return scraped.take(exposition, even + ahead, lead=ahead)

    take(1000, 0)
    take(1001, 0)
    found = take(1003, step)
    assert (found["g{}"], found["c_total{}"]) == ((1003 + step, 1003), (1003 + step, 2.0))
    begun = f"bench_run_start_time_seconds{run} {1003.5 + step}\n# TYPE x_total counter\nx_total{run} 0.25\n"
    found = take(1004, step, begun)
    of_run = f"x_total{{run_id={'a' * 32}}}"
    assert (found[of_run], found["c_total{}"]) == ((1004 + step, 0.5), (1004 + step, 2.0))
    assert take(1005, 0)["c_total{}"] == (1005, 2.0)
    assert scraped.dropped("stale") == 0


@pytest.mark.parametrize("ahead", [0, 300])
@pytest.mark.parametrize("step", [-3600, 3600])
def test_another_hosts_time_continues_after_a_step_of_the_collectors_clock(step: int, ahead: int) -> None:
    scraped = Scraped(target(), began=990)

    def take(even: int, step: int) -> dict[str, tuple[float, float]]:
        exposition = f"# TYPE c_total counter\nc_total {even * 2}\nnode_time_seconds {even + ahead}\ng {even}\n"
        return scraped.take(exposition, even + step, lead=step)

    for even in range(1000, 1003):
        take(even, 0)
    for even in range(1003, 1006):
        found = take(even, step)
        assert (found["g{}"], found["c_total{}"]) == ((even + ahead, even), (even + ahead, 2.0))
    assert take(1006, 0)["c_total{}"] == (1006 + ahead, 2.0)
    assert scraped.dropped("stale") == 0
