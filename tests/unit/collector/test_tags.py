"""Tags of samples at the starts and ends of runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.collector.write.tags import Part, Tags
from hypergauge.sql.ingest.samples import Segment

HOST, PROCESS, IDLE = 1, 2, 3
# Two run sets with a gap between them, then a running run; and a run's own processes.
SEGMENTS = [
    Segment(HOST, 10, 100.0, 150.0),
    Segment(HOST, 11, 160.0, 200.0),
    Segment(HOST, 12, 200.0, np.inf),
    Segment(PROCESS, 13, 100.0, 150.0, own=True),
]


def parts(resource: int, time: float, dt: float, *, counter: bool = True) -> list[Part]:
    return Tags(SEGMENTS, 0.0, 1).parts(
        np.array([resource], np.int32), np.array([time]), np.array([dt], np.float32), np.array([counter], np.int32)
    )


@pytest.mark.parametrize(
    ("resource", "time", "dt", "wanted"),
    [
        pytest.param(HOST, 130, 10, [], id="within a run"),
        pytest.param(HOST, 110, 10, [], id="from the very start"),
        pytest.param(IDLE, 130, 100, [], id="where no run ever was"),
        pytest.param(PROCESS, 130, 100, [], id="a run's own"),
        pytest.param(HOST, 110, 30, [(100, 20), (110, 10)], id="beyond a start"),
        pytest.param(HOST, 150, 10, [(150, 10)], id="up to the very end"),
        pytest.param(HOST, 150.0005, 10, [(150, 9.9995)], id="beyond an end by less than a millisecond"),
        pytest.param(
            HOST, 240, 180, [(100, 40), (150, 50), (160, 10), (200, 40), (240, 40)], id="over all of them, and outside"
        ),
    ],
)
def test_a_counters_sample_is_divided(resource: int, time: float, dt: float, wanted: list[tuple[float, float]]) -> None:
    found = parts(resource, time, dt)
    assert [part.time for part in found] == pytest.approx([time for time, _ in wanted], abs=2e-6)
    assert [part.dt for part in found] == pytest.approx([dt for _, dt in wanted], abs=1e-3)
    # Parts end before a boundary, as runs do, except those that end with the sample.
    assert all(part.time < end for part, (end, _) in zip(found, wanted, strict=True) if end != time or end == 150)


@pytest.mark.parametrize(
    ("time", "dt", "kept"),
    [(130, 10, None), (110, 10, None), (110, 60, 10), (100.5, 1, None), (100.5, 60, 1), (155, 60, 5), (155, 4, None)],
)
def test_a_gauge_covers_at_most_a_second_before_a_boundary(time: float, dt: float, kept: float | None) -> None:
    wanted = [] if kept is None else [Part(0, time, kept)]
    assert parts(HOST, time, dt, counter=False) == wanted


@given(time=st.floats(90, 300), dt=st.floats(0.5, 250))
def test_parts_sum_up_to_the_sample(time: float, dt: float) -> None:
    if found := parts(HOST, time, dt):
        assert sum(part.dt for part in found) == pytest.approx(dt, rel=1e-6)
        assert [part.time for part in found] == sorted(part.time for part in found)
        tags = Tags(SEGMENTS, 0.0, 1).tag(np.full(len(found), HOST, np.int32), np.array([part.time for part in found]))
        assert len(set(tags.tolist())) >= len(found) - 1, "each part has another run set, or none"
