"""Energy of runs on MIG instances of an A100: the driver's processes, with energy and activity printed by ``dcgmi``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.gpu import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuProcess, GpuSample, Sample
from tests.support.exporters.dcgm import Given, Played, exposition, until, values
from tests.support.exporters.golden import check_golden
from tests.support.exporters.nvml import GIB, T0, end_run, new_run
from tests.support.exporters.process import StartRun

UUID = "GPU-73fa6136-5962-8760-3543-871462d498eb"
LARGE, MIDDLE = MigInstance(1, "MIG-1", "3g.40gb"), MigInstance(5, "MIG-5", "2g.20gb")
SMALL, FREE = MigInstance(13, "MIG-13", "1g.10gb"), MigInstance(14, "MIG-14", "1g.10gb")
INSTANCES = (LARGE, MIDDLE, SMALL, FREE)
# DCGM's entity of each instance, as in the captured hierarchy.
ENTITIES = {LARGE: "GPU-I 3", MIDDLE: "GPU-I 2", SMALL: "GPU-I 0", FREE: "GPU-I 1"}
A100 = Gpu(0, UUID, "NVIDIA A100-SXM4-80GB", 80 * GIB, INSTANCES, mig_enabled=True)
DRIVER = GpuSample(
    A100, 0, "00000000:01:00.0", {"power": 65.0, "energy": 1.0}, tuple(DeviceSample(one) for one in INSTANCES)
)
START, IDLE_WATTS = 20714331.055, 62.0
GRAPHICS, SM, OCCUPANCY, NOTHING = "1001", "1002", "1003", "N/A"

Totals = dict[str, float]


class Bench:
    """An A100 whose driver and DCGM advance together."""

    def __init__(self, exporter: DcgmExporter, reader: Given, folder: Path) -> None:
        self.exporter, self._reader, self._folder = exporter, reader, folder
        self.time = T0
        self.joules = START
        self._rows = 0

    def read(
        self, seconds: float, watts: float, activities: dict[MigInstance, str], processes: dict[int, MigInstance],
        field: str = SM, driver: GpuSample = DRIVER,
    ) -> Totals:  # fmt: skip
        """Return the totals after an interval, by ``idle``, ``other`` and ``<run> <instance> <method>``.

        `activities` are texts of dmon; instances without one have none.
        """
        self.time += seconds
        self.joules += watts * seconds
        self._rows += 1
        members = tuple(GpuProcess(pid, gpu_instance_id=one.gpu_instance_id) for pid, one in processes.items())
        self._reader.samples[:] = [Sample(self.time, "535.54.03", (replace(driver, processes=members),))]
        # First the rows of all instances, of which the last has a mark, and then the energy of their time.
        mark = f"{self._rows / 1000:.3f}"
        for instance, entity in ENTITIES.items():
            none = dict.fromkeys((GRAPHICS, SM), NOTHING)
            self._print(entity, none | {field: activities.get(instance, NOTHING), OCCUPANCY: mark})
        until(self.exporter, lambda text: f"{mark}000" in values(text, "DCGM_FI_PROF_SM_OCCUPANCY")[3:])
        energy = f"{round(self.joules * 1000)}"
        self._print("GPU 0", {"155": f"{watts:.3f}", "156": energy})
        text = until(self.exporter, lambda text: energy in values(text, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"))
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name, labels = sample.name.removeprefix("bench_dcgm_"), sample.labels
                if name == "attributed_energy_joules_total" and sample.value:
                    found[f"{labels['run_id']} {labels['GPU_I_ID']} {labels['method']}"] = sample.value
                elif name in ("idle_energy_joules_total", "other_energy_joules_total"):
                    found[name.partition("_")[0]] = sample.value
        return found

    def _print(self, entity: str, cells: dict[str, str]) -> None:
        """Let dmon print these texts of an entity from its next row on."""
        path = self._folder / "values.json"
        texts = json.loads(path.read_text())
        texts[entity] |= cells
        new = path.with_suffix(".new")
        new.write_text(json.dumps(texts))
        new.replace(path)


@pytest.fixture
def bench(played: Played) -> Bench:
    reader = Given(Sample(T0, "535.54.03"))
    exporter, folder = played("a100-mig", reader=reader)
    return Bench(exporter, reader, folder)


IDLE = dict.fromkeys(INSTANCES, "0.000")
# As the busy seconds of NVIDIA's guide: 0.534 and 0.986 of the time.
WORK = IDLE | {LARGE: "0.534", SMALL: "0.986"}
WEIGHTS = {LARGE: 3 * 0.534, SMALL: 0.986}


@pytest.mark.parametrize(
    ("field", "activities", "method", "weights"),
    [
        (SM, WORK, "instance_activity", WEIGHTS),
        (GRAPHICS, WORK, "instance_activity", WEIGHTS),
        (SM, IDLE, "instance_size", {LARGE: 3, SMALL: 1}),
    ],
)
def test_energy_above_idle_is_split(
    bench: Bench, process: StartRun, tmp_path: Path, field: str, activities: dict[MigInstance, str], method: str,
    weights: dict[MigInstance, float],
) -> None:  # fmt: skip
    runs = {new_run(tmp_path): instance for instance in (LARGE, SMALL)}
    members = {process(run_id): instance for run_id, instance in runs.items()}
    first = bench.read(0, IDLE_WATTS, IDLE, members)
    assert first == {"idle": 0, "other": 0}
    before = bench.joules
    found = bench.read(10, 262.0, activities, members, field)
    assert found.pop("idle") == pytest.approx(IDLE_WATTS * 10)
    assert found.pop("other") == 0
    whole = sum(weights.values())
    assert found == {
        f"{run_id} {instance.gpu_instance_id} {method}": pytest.approx(2000 * weights[instance] / whole, abs=0.01)
        for run_id, instance in runs.items()
    }
    assert sum(found.values()) + IDLE_WATTS * 10 == pytest.approx(bench.joules - before, abs=0.01)


def test_work_outside_runs_has_its_part(bench: Bench, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    members = {process(run_id): LARGE, 1: MIDDLE}
    bench.read(0, IDLE_WATTS, IDLE, members)
    found = bench.read(10, 262.0, IDLE | {LARGE: "0.500", MIDDLE: "0.500", FREE: "0.500"}, members)
    assert found == {
        "idle": pytest.approx(620),
        "other": pytest.approx(1000),
        f"{run_id} 1 instance_activity": pytest.approx(1000),
    }


@pytest.mark.parametrize("missing", [NOTHING, "", "140737488355328.000"])  # DCGM_FP64_BLANK
def test_the_size_counts_while_an_activity_is_missing(
    bench: Bench, process: StartRun, tmp_path: Path, missing: str
) -> None:
    runs = {new_run(tmp_path): instance for instance in (LARGE, SMALL)}
    members = {process(run_id): instance for run_id, instance in runs.items()}
    bench.read(0, IDLE_WATTS, WORK, members)
    bench.read(10, 262.0, WORK, members)
    without = WORK | {FREE: missing}
    found = bench.read(10, 262.0, without, members)
    by_size = {key: joules for key, joules in found.items() if key.endswith("instance_size")}
    assert sorted(by_size.values()) == pytest.approx([500, 1500], abs=0.1)
    assert sum(found.values()) == pytest.approx(20 * 262, abs=0.1), "the parts still add up"


def test_final_totals_of_a_run(bench: Bench, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    members = {process(run_id): LARGE}
    bench.read(0, IDLE_WATTS, IDLE, members)
    bench.read(10, 262.0, WORK, members)
    end_run(tmp_path, run_id, T0 + 15)
    found = bench.read(10, 162.0, IDLE, {})
    own = {key: joules for key, joules in found.items() if key.startswith(run_id)}
    assert sum(found.values()) == pytest.approx(10 * (262 + 162), abs=0.1)
    assert sum(own.values()) == pytest.approx(2000 * WEIGHTS[LARGE] / sum(WEIGHTS.values()), abs=0.1)
    text = exposition(bench.exporter)
    assert values(text, "bench_dcgm_run_end_time_seconds") == ["1.750000015e+09"]
    ours = "".join(line for line in text.splitlines(keepends=True) if "bench_dcgm_" in line)
    assert text.endswith(ours), "after dcgm-exporter's lines"
    check_golden("dcgm-energy", ours.replace(run_id, f"{1:032x}"))


@pytest.mark.parametrize(
    ("driver", "activities"),
    [
        (replace(DRIVER, activity="gpm"), WORK),  # the exporter nvml knows the activity
        (replace(DRIVER, gpu=replace(A100, mig=(), mig_enabled=False), devices=(DeviceSample(),)), WORK),
        (DRIVER, {}),  # without the profiling module
        (DRIVER, {LARGE: "0.986"}),
    ],
)
def test_nothing_is_split(
    bench: Bench, process: StartRun, tmp_path: Path, driver: GpuSample, activities: dict[MigInstance, str]
) -> None:
    members = {process(new_run(tmp_path)): LARGE}
    for _ in range(2):
        assert bench.read(10, 262.0, activities, members, driver=driver) == {}
