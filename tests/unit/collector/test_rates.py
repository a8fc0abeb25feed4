"""Conversion of scrapes to samples: the time that each covers, and the increases of counters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates, Samples

NONE: list[tuple[float, float, float]] = []


class Target:
    """Parser and rates of one target, for given responses."""

    def __init__(self, interval: float = 1.0, forget_after: int = 600) -> None:
        self.parser, self.rates = Parser(forget_after), Rates(interval)

    def scrape(self, exposition: str, time: float, created: dict[int, float] | None = None) -> Samples:
        return self.rates.samples(self.parser.parse(exposition.encode()), time, created)

    def triples(self, exposition: str, time: float, created: dict[int, float] | None = None) -> list[tuple[float, ...]]:
        """Return the samples of an exposition: time, value, dt."""
        samples = self.scrape(exposition, time, created)
        return list(zip(samples.times.tolist(), samples.values.tolist(), samples.dts.tolist(), strict=True))


def run(scrapes: list[tuple[float, str]], interval: float = 1.0) -> list[list[tuple[float, ...]]]:
    target = Target(interval)
    return [target.triples(exposition, time) for time, exposition in scrapes]


@pytest.mark.parametrize(
    ("scrapes", "samples"),
    [
        pytest.param([(10, "g 5"), (11, "g 6")], [[(10, 5, 1)], [(11, 6, 1)]], id="a gauge as read"),
        pytest.param([(10, "g 5"), (60, "g 6")], [[(10, 5, 1)], [(60, 6, 1)]], id="a gauge claims no gap"),
        pytest.param([(10, "g 5"), (10.25, "g 6")], [[(10, 5, 1)], [(10.25, 6, 0.25)]], id="a gauge scraped early"),
        pytest.param([(10, "g 5"), (11, "g -5")], [[(10, 5, 1)], [(11, -5, 1)]], id="a gauge may fall"),
        pytest.param([(10, "c_total 5"), (12, "c_total 9")], [NONE, [(12, 2, 2)]], id="a counter's rate"),
        pytest.param([(10, "c_total 5"), (70, "c_total 65")], [NONE, [(70, 1, 60)]], id="a counter covers a gap"),
        pytest.param([(10, "c_total 5"), (11, "c_total 5")], [NONE, [(11, 0, 1)]], id="a counter that stands"),
        pytest.param(
            [(10, "c_total 5"), (11, "c_total 3"), (13, "c_total 7")], [NONE, NONE, [(13, 2, 2)]], id="a counter reset"
        ),
        pytest.param(
            [(10, "c_total 5"), (11, "x 1"), (12, "c_total 9")], [NONE, [(11, 1, 1)], [(12, 2, 2)]], id="a line missing"
        ),
        pytest.param(
            [(10, "c_total 5"), (11, "c_total NaN"), (12, "c_total +Inf"), (13, "c_total 8")],
            [NONE, NONE, NONE, [(13, 1, 3)]],
            id="a counter without a value is skipped",
        ),
        pytest.param([(10, "g 1"), (11, "g 2 10500")], [[(10, 1, 1)], [(10.5, 2, 0.5)]], id="a line's own time wins"),
        pytest.param([(10, "g 1"), (10, "g 2")], [[(10, 1, 1)], NONE], id="a repeated time"),
        pytest.param([(10, "g 1"), (9, "g 2"), (11, "g 3")], [[(10, 1, 1)], NONE, [(11, 3, 1)]], id="a time before"),
        pytest.param(
            [(10, "c_total 1 9000"), (11, "c_total 5 9000"), (12, "c_total 7 12000")],
            [NONE, NONE, [(12, 2, 3)]],
            id="a counter that its target has not read again",
        ),
        pytest.param([(10, "g 1 611000"), (11, "g 2")], [NONE, [(11, 2, 1)]], id="a clock far ahead silences nothing"),
    ],
)
def test_samples_of_scrapes(scrapes: list[tuple[float, str]], samples: list[list[tuple[float, float, float]]]) -> None:
    assert run(scrapes) == samples


def test_a_gauge_without_a_value_has_one_nan_sample() -> None:
    expositions = ["g NaN", "g 5", "g NaN", "g NaN", "g 6", "g +Inf", "g 7"]
    values = [
        [value for _, value, _ in samples]
        for samples in run([(10 + n, exposition) for n, exposition in enumerate(expositions)])
    ]
    assert [value and (None if math.isnan(value[0]) else value[0]) for value in values] == [
        [],
        5,
        None,
        [],
        6,
        None,
        7,
    ]


def test_stale_lines_are_counted() -> None:
    target = Target()
    assert target.scrape("a 1\nb 1 5000\nc 1 9999000", 10).dropped == 1
    assert target.scrape("a 2\nb 2 5000\nc 2", 11).dropped == 1


def test_a_repeated_line_is_no_loss() -> None:
    """An exporter may repeat a dated line, such as the last totals of an ended run."""
    target = Target()
    assert target.scrape("a 1 5000\nb NaN 5000", 10).dropped == 0
    assert target.scrape("a 1 5000\nb NaN 5000", 11).dropped == 0
    assert target.scrape("a 1 4000\nb 1 5000", 12).dropped == 2


def test_arrays_keep_the_order_and_have_the_spools_types() -> None:
    target = Target()
    target.scrape("c_total 1\na 1\nb 1", 10)
    samples = target.scrape("b 2\nc_total 3\na 4", 11)
    assert samples.refs.tolist() == [2, 0, 1]
    assert samples.values.tolist() == [2, 2, 4]
    types = (samples.times.dtype, samples.refs.dtype, samples.values.dtype, samples.dts.dtype)
    assert types == (np.dtype("f8"), np.dtype("u4"), np.dtype("f8"), np.dtype("f4"))


def test_a_counter_counts_from_its_created_timestamp() -> None:
    target = Target()
    assert target.triples("cpu_seconds_total 3\ng 1", 12, {0: 10, 1: 10}) == [(12, 1.5, 2), (12, 1, 1)]
    assert target.triples("cpu_seconds_total 4\ng 1", 13) == [(13, 1, 1), (13, 1, 1)]
    assert target.triples("cpu_seconds_total 2\ng 1", 14, {0: 10}) == [(14, 1, 1)], "a reset has no created timestamp"


def test_a_created_timestamp_survives_a_first_line_without_a_value() -> None:
    target = Target()
    assert target.triples("a_total NaN\nb_total 1", 9, {0: 10, 1: 10}) == []
    assert target.triples("a_total 4\nb_total 8", 12) == [(12, 2, 2), (12, 4, 2)]


def test_a_reused_ref_starts_again() -> None:
    target = Target(forget_after=5)
    target.scrape('up 1\na_total{pod="x"} 5', 0)
    for time in range(1, 11):
        target.scrape("up 1", time)
    scrape = target.parser.parse(b'up 1\na_total{pod="y"} 900')
    assert list(scrape.new) == [1], "the ref of the forgotten series"
    assert target.rates.samples(scrape, 11).refs.tolist() == [0]


def test_many_series_of_both_kinds() -> None:
    target = Target()
    names = [f"g{n}" if n % 2 else f"c{n}_total" for n in range(1000)]
    target.scrape("\n".join(f"{name} {n}" for n, name in enumerate(names)), 10)
    samples = target.scrape("\n".join(f"{name} {2 * n}" for n, name in enumerate(names)), 12)
    assert samples.values.tolist() == [2 * n if n % 2 else n / 2 for n in range(1000)]
    assert samples.dts.tolist() == [1 if n % 2 else 2 for n in range(1000)]


steps = st.lists(
    st.tuples(
        st.floats(0.05, 5000),  # seconds since the previous scrape
        st.one_of(st.integers(0, 10**9), st.floats(0, 1e9)),  # increase since then
        st.sampled_from(["", "", "", "reset", "NaN", "missing", "repeated time"]),
    ),
    min_size=1,
    max_size=40,
)


@given(steps)
def test_the_sum_of_value_times_dt_is_the_increase(history: list[tuple[float, float, str]]) -> None:
    target = Target()
    time = seen_at = 1_700_000_000.0
    count = seen = 100.0
    target.scrape("c_total 100\nup 1", time)
    increase = area = largest = 0.0
    for elapsed, more, event in history:
        time += 0 if event == "repeated time" else elapsed
        count = 0.0 if event == "reset" else count + more
        line = {"NaN": "c_total NaN", "missing": ""}.get(event, f"c_total {count!r}")
        samples = target.scrape(f"{line}\nup 1", time)
        counted = samples.refs == 0
        added = float(np.sum(samples.values[counted] * samples.dts[counted]))
        area, largest = area + added, max(largest, added)
        if event in ("NaN", "missing") or time == seen_at:
            assert not counted.any()
            continue
        assert samples.dts[counted].tolist() == ([np.float32(time - seen_at)] if count >= seen else [])
        increase += max(count - seen, 0)
        seen, seen_at = count, time
        assert area == pytest.approx(increase, rel=1e-12, abs=largest * 2**-24 + 1e-9)


def test_the_rounding_residual_counts_in_the_next_sample() -> None:
    target = Target()
    target.scrape("cpu_seconds_total 1000\nup 1", 10)
    ticks = np.random.default_rng(0).integers(0, 100, 5000)
    area = 0.0
    for second, total in enumerate(1000 + np.cumsum(ticks) / 100, start=11):
        samples = target.scrape(f"cpu_seconds_total {total:.2f}\nup 1", second)
        assert samples.values[0] == np.float32(samples.values[0])
        area += float(samples.values[0] * samples.dts[0])
        assert area == pytest.approx(total - 1000, rel=1e-12, abs=2**-24)
    assert sum(float(np.float32(tick / 100)) for tick in ticks) != pytest.approx(area, rel=1e-12), (
        "rounding errors would add up"
    )


def test_an_idle_counter_is_zero_despite_a_residual() -> None:
    target = Target()
    target.scrape("c_total 0", 10)
    assert target.triples("c_total 0.1", 11) == [(11, float(np.float32(0.1)), 1)]
    assert target.triples("c_total 0.1", 12) == [(12, 0, 1)]
    assert target.triples("c_total 0.1000000001", 13) == [(13, 0, 1)], "less than the residual"
    [(_, value, _)] = target.triples("c_total 0.2", 14)
    assert value + np.float32(0.1) == pytest.approx(0.2, rel=1e-8)


@pytest.mark.parametrize(
    ("read", "stored"),
    [
        ("0.068680", float(np.float32(0.06868))),
        ("71.532", float(np.float32(71.532))),
        ("16777215", 16777215),
        ("25769803777", 25769803777),
        ("-25769803777", -25769803777),
        ("1795251783.0971992", 1795251783.0971992),
        ("1e300", 1e300),
        ("1e-300", 1e-300),
        ("0", 0),
    ],
)
def test_gauges_have_single_or_full_precision(read: str, stored: float) -> None:
    assert Target().triples(f"g {read}", 10) == [(10, stored, 1)]


def test_rates_beyond_single_precision_are_finite() -> None:
    target = Target()
    target.scrape("a_total 0\nb_total 0", 10)
    assert target.scrape("a_total 1e300\nb_total 1e-300", 11).values.tolist() == [1e300, 1e-300]


@given(st.lists(st.floats(0.01, 30), min_size=1, max_size=30), st.sampled_from([0.1, 1.0, 10.0]))
def test_a_gauge_never_covers_more_than_the_elapsed_time(gaps: list[float], interval: float) -> None:
    target = Target(interval)
    time = 1_700_000_000.0
    claimed = float(target.scrape("g 1", time).dts[0])
    assert claimed == np.float32(interval)
    for gap in gaps:
        time += gap
        claimed += float(target.scrape("g 1", time).dts[0])
    assert claimed <= (time - 1_700_000_000.0) * (1 + 1e-6) + interval * 1.001


def test_lines_dated_before_the_start_are_dropped() -> None:
    # An exporter exposes an ended run's last values for a minute, dated to its end. A collector that starts within
    # that minute would write them twice.
    parser, rates = Parser(), Rates(1.0, since=1000.0)
    scrape = parser.parse(b'peak{run="a"} 7 999000\npeak{run="b"} 8 1001000\npeak{run="c"} 9\n')
    assert rates.samples(scrape, 1002.0).values.tolist() == [8.0, 9.0]
