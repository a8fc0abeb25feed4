"""Last totals of ended runs, dated into the run although their lines have no timestamp."""

from __future__ import annotations

from typing import Any

import pytest

from hypergauge.collector.discovery.relabel import Rule
from tests.support.collector.scraped_target import Scraped, target

RUN, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2
PROCESS, GPU = "bench_process_end_time_seconds", "bench_gpu_run_end_time_seconds"
SECONDS = "bench_process_cpu_seconds_total"


def line(metric: str, value: object, run_id: str = RUN) -> str:
    kind = "counter" if metric.endswith("_total") else "gauge"
    return f'# TYPE {metric} {kind}\n{metric}{{run_id="{run_id}"}} {value}\n'


def about(at: float) -> Any:
    return pytest.approx(at, abs=1e-7)


def of(metric: str, run_id: str = RUN) -> str:
    return f"{metric}{{run_id={run_id}}}"


@pytest.mark.parametrize("metric", [PROCESS, GPU, "bench_x_end_time_seconds"])
@pytest.mark.parametrize("honored", [True, False])
def test_last_totals_get_the_runs_last_millisecond(metric: str, honored: bool) -> None:
    scraped = Scraped(target(honor_timestamps=honored))
    scraped.take(line(SECONDS, 1), 1000)
    found: Any = scraped.take("up 1\n" + line(metric, 1000.75) + line(SECONDS, 4), 1001)
    expected: Any = {
        "up{}": (1001, 1),
        of(metric): (about(1000.749), 1000.75),
        of(SECONDS): (about(1000.749), pytest.approx(3 / 0.749, rel=1e-6)),
    }
    assert found == expected
    for at in (1002, 1003):
        assert scraped.take("up 1\n" + line(metric, 1000.75) + line(SECONDS, 4), at).keys() == {"up{}"}


def test_last_totals_are_stored_once_despite_clock_steps() -> None:
    scraped = Scraped(target())
    exposition = "up 1\n" + line(PROCESS, 5000.75) + line(SECONDS, 4)
    scraped.take("up 1\n" + line(SECONDS, 1), 5000, 0)
    assert scraped.take(exposition, 5001, 0).keys() == {"up{}", of(PROCESS), of(SECONDS)}
    for at, lead in ((1402, -3600), (1403, -3600), (5004, 0), (5005, 0)):
        assert scraped.take(exposition, at, lead).keys() == {"up{}"}
    ended = exposition + line(PROCESS, 5005.5, OTHER)
    assert scraped.take(ended, 5006, 0).keys() == {"up{}", of(PROCESS, OTHER)}


def test_last_totals_of_a_run_between_two_scrapes() -> None:
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n", 1000)
    exposition = line("bench_process_start_time_seconds", 1000.25) + line(PROCESS, 1000.75) + line(SECONDS, 4)
    found: Any = scraped.take(exposition, 1001)
    assert found[of(SECONDS)] == (about(1000.749), pytest.approx(4 / 0.499, rel=1e-6))


def test_other_runs_continue() -> None:
    scraped = Scraped(target())
    scraped.take(line(SECONDS, 1) + line(SECONDS, 1, OTHER), 1000)
    found = scraped.take(line(PROCESS, 1000.5) + line(SECONDS, 2) + line(SECONDS, 3, OTHER), 1001)
    assert found[of(SECONDS, OTHER)] == (1001, 2)
    assert found[of(SECONDS)][0] == about(1000.499)


@pytest.mark.parametrize("millisecond", range(0, 1000, 37))
def test_the_end_is_exact(millisecond: int) -> None:
    ended_at = 1_700_000_000 + millisecond / 1000 + 2e-7
    found = Scraped(target()).take(line(PROCESS, repr(ended_at)), 1_700_000_002)
    assert round(found[of(PROCESS)][0] * 1000) == 1_700_000_000_000 + millisecond - 1


@pytest.mark.parametrize("end", ["NaN", "+Inf"])
def test_an_invalid_end_time_ends_no_run(end: str) -> None:
    assert Scraped(target()).take(line(PROCESS, end) + line("bench_process_threads", 3), 1000) == {
        of("bench_process_threads"): (1000, 3)
    }


def test_an_end_in_the_future_gets_the_scrapes_time() -> None:
    scraped = Scraped(target())
    assert scraped.take(line(PROCESS, 1010) + line("bench_process_threads", 3), 1000)[of("bench_process_threads")] == (
        1000,
        3,
    )


def test_a_rule_may_drop_the_line_with_the_end() -> None:
    scraped = Scraped(target(metric_relabel=(Rule(action="drop", source_labels=("__name__",), regex=".*_time_.*"),)))
    found = scraped.take(line(PROCESS, 999.5) + line("bench_process_threads", 3), 1000)
    assert found == {of("bench_process_threads"): (about(999.499), 3)}
