"""Created timestamps of a run's counters, from scrapes around the run's start."""

from __future__ import annotations

import pytest

from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.series_labels import LimitExceeded
from hypergauge.collector.discovery.scrape_config import Limits
from tests.support.collector.scraped_target import Scraped, target

RUN, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2
ENERGY = f"bench_gpu_attributed_energy_joules_total{{run_id={RUN}}}"


def start(at: float, run_id: str = RUN, metric: str = "bench_gpu_run_start_time_seconds", labels: str = "") -> str:
    return f'# TYPE {metric} gauge\n{metric}{{run_id="{run_id}"{labels}}} {at}\n'


def energy(joules: float, run_id: str = RUN, labels: str = "") -> str:
    name = "bench_gpu_attributed_energy_joules_total"
    return f'# TYPE {name} counter\n{name}{{run_id="{run_id}"{labels}}} {joules}\n'


@pytest.mark.parametrize(
    "metric", ["bench_process_start_time_seconds", "bench_gpu_run_start_time_seconds", "bench_x_start_time_seconds"]
)
def test_a_runs_counters_start_with_the_run(metric: str) -> None:
    scraped = Scraped(target(), began=990)
    assert scraped.take("up 1\n", 1000).keys() == {"up{}"}
    assert scraped.take(start(1000.5, metric=metric) + energy(3), 1001)[ENERGY] == (1001, 6)


@pytest.mark.parametrize(
    ("began", "before", "started_at", "counts"),
    [
        (990, 999, 999.5, True),
        (990, 999, 995, True),  # the exporter noticed it late
        (990, 999, 993, False),  # measured before
        (996, 999, 995, False),
        (999.5, None, 999.6, True),
        (999.5, None, 999.4, False),
        (990, 999, 1000.9, True),  # clocks differ
        (990, 999, 1002, False),
        (990, 999, float("nan"), False),
    ],
)
def test_the_counters_of_an_older_run_continue(
    began: float, before: float | None, started_at: float, counts: bool
) -> None:
    scraped = Scraped(target(), began=began)
    if before is not None:
        scraped.take("up 1\n", before)
    assert (ENERGY in scraped.take(start(started_at) + energy(3), 1000)) == (counts and started_at < 1000)
    if started_at < 1000:
        assert scraped.take(start(started_at) + energy(5), 1001)[ENERGY][1] == pytest.approx(2)


def test_a_runs_late_counter_starts_with_the_run() -> None:
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n", 1000)
    assert scraped.take(start(1000.5), 1001).keys() == {f"bench_gpu_run_start_time_seconds{{run_id={RUN}}}"}
    for at in range(1002, 1010):
        scraped.take(start(1000.5), at)
    assert scraped.take(start(1000.5) + energy(38), 1010)[ENERGY] == (1010, 4), "over all 9.5 s"
    assert scraped.take(start(1000.5) + energy(48) + energy(21, labels=',method="b"'), 1011) == {
        ENERGY: (1011, 10),
        ENERGY.replace("{", "{method=b,"): (1011, 2),
        f"bench_gpu_run_start_time_seconds{{run_id={RUN}}}": (1011, 1000.5),
    }


def test_an_older_runs_counters_have_no_created_timestamp() -> None:
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n" + start(980), 1000)
    assert ENERGY not in scraped.take(start(980) + energy(300), 1001)


def test_a_start_time_applies_to_its_run_alone() -> None:
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n", 1000)
    exposition = start(1000.5) + energy(3) + energy(500, OTHER) + "requests_total 7\n" + 'requests_total{run_id=""} 8\n'
    assert [name for name in scraped.take(exposition, 1001) if "_total" in name] == [ENERGY]


@pytest.mark.parametrize(
    "line",
    [
        "start_time_seconds",
        "process_start_time_seconds",
        "bench_start_time_seconds",
        "bench_process_start_time_seconds_total",
    ],
)
def test_other_lines_are_no_start_time(line: str) -> None:
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n", 1000)
    assert ENERGY not in scraped.take(start(1000.5, metric=line) + energy(3), 1001)


def test_a_forgotten_counter_is_not_counted_twice() -> None:
    scraped = Scraped(target(), began=990)
    scraped.scraped.parser = Parser(forget_after=2)
    scraped.take("up 1\n", 1000)
    assert scraped.take(start(1000.5) + energy(3), 1001)[ENERGY] == (1001, 6)
    for at in range(1002, 1007):
        scraped.take(start(1000.5), at)
    assert ENERGY not in scraped.take(start(1000.5) + energy(4), 1007)
    for at in range(1008, 1013):
        scraped.take("up 1\n", at)
    assert ENERGY not in scraped.take(start(1000.5) + energy(5), 1013), "not from the run's start either"


def test_a_cleared_cache_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.collector.scrape.scraped_target._MOST_CACHED", 100)
    scraped = Scraped(target(), began=990)
    scraped.take("up 1\n", 1000)
    scraped.take(start(1000.5) + energy(3), 1001)
    for number in range(20):
        exposition = "".join(f'a{{id="{number}-{line}"}} 1\n' for line in range(40))
        found = scraped.take(exposition + start(1000.5) + energy(3 + number), 1001 + (1 + number) / 10)
        assert found.get(ENERGY, (0, 10))[1] == pytest.approx(10 if number else 0, rel=1e-3)


def test_created_timestamps_survive_a_scrape_beyond_a_limit() -> None:
    scraped = Scraped(target(limits=Limits(sample_limit=2)), began=990)
    scraped.take("up 1\n", 1000)
    with pytest.raises(LimitExceeded):
        scraped.take("up 1\n" + start(1000.5) + energy(3), 1001)
    assert scraped.take(start(1000.5) + energy(3), 1002)[ENERGY] == (1002, 2)
