"""Newest values, which show whether a host is idle again."""

from __future__ import annotations

import time

import pytest

from hypergauge.sql.queries.live import newest_values
from tests.support.world import HOST, World


def test_the_newest_values_are_those_of_the_preferred_source_in_canonical_units(world: World) -> None:
    now = float(int(time.time()))
    times = [now - 3, now - 2, now - 1]
    world.write(
        world.gauge("node_load1", times, [3.0, 2.0, 1.5]),
        world.gauge("node_load5", times, [9.0, 9.0, 9.0]),
        world.gauge("nvidia_smi_temperature_gpu", times, [50.0, 50.0, 50.0], {"uuid": "GPU-1"}, "nvidia"),
        world.gauge("DCGM_FI_DEV_GPU_TEMP", times, [70.0, 60.0, 55.0], {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", times, [8e4, 7e4, 6e4], {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_GPU_TEMP", times, [80.0, 80.0, 80.0], {"UUID": "GPU-2"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_GPU_TEMP", [now - 90], [80.0], {"UUID": "GPU-3"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_GPU_UTIL", times, [99.0] * 3, {"UUID": "GPU-1"}, "dcgm"),
    )
    found = newest_values(world.connection, HOST, ["GPU-1", "GPU-3"], now)
    assert {(one.quantity, one.gpu_uuid): (one.value, one.at) for one in found} == {
        ("load", None): (1.5, now - 1),
        ("gpu_temperature", "GPU-1"): (55.0, now - 1),
        ("gpu_power", "GPU-1"): (pytest.approx(60), now - 1),
    }
    assert newest_values(world.connection, "another", [], now) == []
