"""Rounding of stored values to the resolution that the catalog declares."""

from __future__ import annotations

import time

import pytest
from psycopg.errors import CheckViolation

from tests.support.world import World

EXPOSITION = b"""
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} 0.123456
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} 412.371
# TYPE my_level gauge
my_level 17.3
# TYPE my_steps_total counter
my_steps_total 1.3
"""


def stored(world: World) -> dict[str, float]:
    """Return the value of each metric."""
    rows = world.connection.execute("select metric, min(value) from samples join series using (series_id) group by 1")
    return dict(rows.fetchall())


def test_a_gauge_is_stored_to_the_resolution_of_its_metric(world: World) -> None:
    now = time.time() - 60
    world.connection.execute(
        "insert into metrics (metric, quantity, unit, kind, combine, resolution) values"
        " ('my_level', 'level', 'meters', 'gauge', 'sum', 0.5)"
    )
    later = EXPOSITION.replace(b"my_steps_total 1.3", b"my_steps_total 3.4")
    world.write(world.scraped([(now - 1, EXPOSITION), (now, later)], "dcgm"))
    assert stored(world) == {
        "DCGM_FI_PROF_SM_ACTIVE": 1011 / 8192,
        "DCGM_FI_DEV_POWER_USAGE": pytest.approx(412.371),
        "my_level": 17.0,
        "my_steps_total": pytest.approx(2.1),
    }


def test_a_counter_has_no_resolution(world: World) -> None:
    with pytest.raises(CheckViolation, match="metrics_check"):
        world.connection.execute("update metrics set resolution = 1 where metric = 'node_cpu_seconds_total'")
