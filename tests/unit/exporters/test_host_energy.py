"""Split of a host's energy by CPU time: intervals with hand-computed values, and invariants by property tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.exporters.energy.cpu_time import CpuTime
from hypergauge.exporters.energy.split import HostSplit

A, B = "a" * 32, "b" * 32
CORES = 4
Step = tuple[float | None, CpuTime | None]


def cpu(seconds: float, busy: float, **runs: float) -> CpuTime:
    """Return the CPU time of an interval on four cores; `a` and `b` are runs."""
    by_id = {{"a": A, "b": B}[name]: used for name, used in runs.items()}
    return CpuTime(seconds, busy, max(CORES * seconds - busy, 0.0), by_id)


def split(*steps: Step) -> HostSplit:
    made = HostSplit()
    for joules, used in steps:
        made.update(joules, used)
    return made


def parts(made: HostSplit) -> dict[str, object]:
    found = {"idle": made.idle, "other": made.other}
    found |= {f"{share.run_id[0]} {share.method}": joules for share, joules in made.runs.items()}
    return {name: pytest.approx(joules, rel=1e-12) for name, joules in found.items() if joules}


# The host is idle for 10 s, at 40 W.
FREE: tuple[Step, Step] = ((1000.0, None), (1400.0, cpu(10, 0.5)))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (FREE, {"idle": 400}),
        # 120 W, 80 of them above idle, by CPU time: of 20 busy seconds the runs have 10 and 5.
        ([*FREE, (2600.0, cpu(10, 20, a=10, b=5))], {"idle": 800, "a cpu_time": 400, "b cpu_time": 200, "other": 200}),
        # The kernel shows runs more than the host: no other process has a part.
        ([*FREE, (2600.0, cpu(10, 10, a=10, b=10))], {"idle": 800, "a cpu_time": 400, "b cpu_time": 400}),
        # A run that ended within the interval has the seconds until then.
        ([*FREE, (2600.0, cpu(10, 20, a=1, b=19))], {"idle": 800, "a cpu_time": 40, "b cpu_time": 760}),
        # Below the lowest power so far, all is idle, and so is as much of later intervals.
        ([*FREE, (1700.0, cpu(10, 20, a=20))], {"idle": 700}),
        # No CPU time was counted.
        ([*FREE, (2600.0, cpu(10, 0))], {"idle": 1600}),
        # A counter that cannot be read for a while: the next reading has the energy and CPU time of both intervals.
        ([*FREE, (None, cpu(5, 5, a=5)), (2600.0, cpu(5, 15, b=15))],
         {"idle": 800, "a cpu_time": 200, "b cpu_time": 600}),
        # A counter that starts over.
        ([*FREE, (5.0, cpu(10, 20, a=10)), (1205.0, cpu(10, 10, a=10))], {"idle": 800, "a cpu_time": 800}),
        # The first intervals are too short to know a power.
        ([(0.0, None), (30.0, cpu(0.2, 0.5, a=0.5)), (60.0, cpu(0.2, 0.5, a=0.5))], {"idle": 60}),
    ],
)  # fmt: skip
def test_intervals(steps: Sequence[Step], expected: dict[str, object]) -> None:
    assert parts(split(*steps)) == expected


def test_an_exporter_that_starts_under_load_says_so() -> None:
    busy: list[Step] = [(0.0, None), (1000.0, cpu(10, 20, a=20)), (2200.0, cpu(10, 30, a=30))]
    assert parts(split(*busy)) == {"idle": 2000, "a cpu_time_no_idle": 200}
    later: list[Step] = [*busy, (2600.0, cpu(10, 1)), (3800.0, cpu(10, 30, a=30))]
    assert parts(split(*later)) == {"idle": 2800, "a cpu_time_no_idle": 200, "a cpu_time": 800}


def test_a_counter_that_restarts_does_not_lower_the_idle_power() -> None:
    """40 W idle; the counter of one second is lost."""
    idle: list[Step] = [(40.0 * second, cpu(1, 0.1)) for second in range(10)]
    restart: list[Step] = [(360.5, cpu(1, 0.1)), *((360.5 + 40 * n, cpu(1, 0.1)) for n in range(1, 5))]
    made = split(*idle, *restart, (640.5, cpu(1, 4, a=4)))
    (share,) = made.runs
    before = made.runs[share]
    made.update(760.5, cpu(1, 4, a=4))
    assert made.runs[share] - before == pytest.approx(80)


def test_a_kernel_without_the_cores_times_never_shows_idle() -> None:
    hidden = CpuTime(10, 0, 0, {A: 1.0})
    assert {share.method for share in split((0.0, None), (10.0, hidden), (500.0, hidden)).runs} == {"cpu_time_no_idle"}


def test_totals_of_forgotten_runs_are_dropped() -> None:
    made = split(*FREE, (2600.0, cpu(10, 20, a=10, b=5)))
    made.forget(lambda run_id: run_id == B)
    assert parts(made) == {"idle": 800, "b cpu_time": 200, "other": 200}


amounts = st.floats(0, 1e6)
intervals = st.tuples(amounts, st.builds(cpu, st.floats(0.001, 1e4), amounts, a=amounts, b=amounts))


@given(st.lists(intervals, max_size=20))
def test_the_parts_add_up_and_never_fall(steps: list[tuple[float, CpuTime]]) -> None:
    made, total = HostSplit(), 0.0
    made.update(total, None)
    before = [0.0, 0.0, 0.0]
    for joules, used in steps:
        total += joules
        made.update(total, used)
        now = [made.idle, made.other, sum(made.runs.values())]
        assert sum(now) == pytest.approx(total, rel=1e-9, abs=1e-6)
        assert all(one >= last * (1 - 1e-12) - 1e-6 for one, last in zip(now, before, strict=True))
        before = now
