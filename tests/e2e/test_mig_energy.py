"""Energy of two runs on MIG instances of an A100: split by DCGM's activity with the exporter `dcgm`, by size without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import NewFolder
from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

HEADER = "Experiment,Workload,Name,Devices,Collocation,File,Listeners,Params"
# Instances of one size for the same time: one run computes all of it, the other one a quarter.
SCRIPT = """
import sys, time

until = time.monotonic() + 8
while time.monotonic() < until:
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pass
    time.sleep(0.2 - float(sys.argv[1]))
"""
ROWS = [
    "{number},1,busy,0,3g.20gb,busy.py,{exporters},0.2",
    "{number},1,lazy,0,3g.20gb,busy.py,{exporters},0.05",
]


@pytest.fixture(scope="module")
def place(new_folder: NewFolder) -> Iterator[Home]:
    """A stack on a host with a simulated A100 in MIG mode."""
    folder = new_folder()
    with Home(folder / "home", folder / "work", {"BENCH_SIMULATE": "1xA100:mig"}).stack() as home:
        yield home


@pytest.fixture(scope="module")
def compared(place: Home) -> dict[int, dict[str, dict[str, Any]]]:
    """Entries of `bench compare` by experiment and name."""
    (place.folder / "busy.py").write_text(SCRIPT)
    for number, exporters in ((116, ""), (117, "process+smi")):
        rows = [row.format(number=number, exporters=exporters) for row in ROWS]
        place.start("schedule", place.sheet(f"mig-{number}", HEADER, rows).path).wait()
    query = "select from runs where started_at is not null having bool_and(summarised) and not exists (select from retag_queue)"
    wait_for(lambda: place.query(query), "the last sample")
    return {
        number: {run["name"]: run for run in place.json("compare", str(number), "--simulated")["runs"]}
        for number in (116, 117)
    }


def test_energy_follows_activity_where_dcgm_measures_it(compared: dict[int, dict[str, dict[str, Any]]]) -> None:
    busy, lazy = compared[116]["busy"], compared[116]["lazy"]
    assert "instance_activity" in busy["gpu_energy_method"].split("+")
    # A simulated instance's work follows from the CPU time of its processes. Its size alone would give even parts.
    ratio = busy["cpu_seconds"] / lazy["cpu_seconds"]
    assert ratio > 1.5
    assert busy["gpu_energy_joules"] / lazy["gpu_energy_joules"] == pytest.approx(ratio, rel=0.3)


def test_without_dcgm_energy_follows_the_size(compared: dict[int, dict[str, dict[str, Any]]]) -> None:
    busy, lazy = compared[117]["busy"], compared[117]["lazy"]
    assert {busy["gpu_energy_method"], lazy["gpu_energy_method"]} == {"instance_size"}
    assert busy["gpu_energy_joules"] < 1.5 * lazy["gpu_energy_joules"]


@pytest.mark.parametrize(
    ("experiments", "counter"),
    [([116], "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), ([116, 117], "bench_gpu_energy_joules_total")],
)
def test_the_parts_add_up_to_the_counter(
    place: Home, compared: dict[int, dict[str, dict[str, Any]]], experiments: list[int], counter: str
) -> None:
    """Alone and together with runs that DCGM did not measure: the counter is that of the exporter whose split counts."""
    [span] = place.query(
        """
        select min(r.started_at) + interval '2 s' as low, max(r.ended_at) - interval '1 s' as high
        from runs r join workloads using (workload_id) where experiment_id = any(%s)
        """,
        experiments,
    )
    parts = place.query("select kind, sum(joules) as joules from energy(%s, %s) group by 1", span["low"], span["high"])
    [whole] = place.query(
        """
        -- DCGM shows the GPU's counter once for each instance.
        select sum(x.area * m.scale) / count(distinct series_id) as joules
        from series_steps(array(select series_id from series where metric = %s), %s, %s, 100) x
        join series using (series_id) join metrics m using (metric_id)
        """,
        counter, span["low"], span["high"],
    )  # fmt: skip
    assert {row["kind"] for row in parts} >= {"run", "idle", "other"}
    assert sum(row["joules"] for row in parts if row["kind"] != "cpu") == pytest.approx(whole["joules"], rel=0.01)


def test_a_runs_total_is_that_of_the_preferred_exporter(
    place: Home, compared: dict[int, dict[str, dict[str, Any]]]
) -> None:
    """Both exporters measured the runs: their totals are never added."""
    for run in compared[116].values():
        [row] = place.query(
            """
            select sum(value * dt) filter (where metric = 'bench_dcgm_attributed_energy_joules_total') as dcgm,
                   sum(value * dt) filter (where metric = 'bench_gpu_attributed_energy_joules_total') as nvml
            from samples join series using (series_id) join places using (place_id) where run_id = %s
            """,
            run["run_id"],
        )
        assert row["nvml"] > 0
        assert abs(row["nvml"] - row["dcgm"]) > 0.1 * row["nvml"]
        assert run["gpu_energy_joules"] == pytest.approx(row["dcgm"], rel=0.001)
