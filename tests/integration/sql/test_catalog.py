"""The catalog of metrics: one quantity, one unit and one resource for every exporter's own names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hypergauge.exporters.dcgm.fields import default_list
from tests.support.world import World

SCRAPES = Path(__file__).parents[2] / "data" / "scrapes"
GPU = "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
WATTS = 512.25
MIB = 2**20

# Values of each of the three, in the canonical unit.
EXPECTED = {
    "gpu_utilization": 0.96,
    "gpu_memory_utilization": 0.41,
    "gpu_encoder_utilization": 0.0,
    "gpu_decoder_utilization": 0.25,
    "gpu_memory_used": 40960 * MIB,
    "gpu_memory_free": 40448 * MIB,
    "gpu_power": WATTS,
    "gpu_temperature": 52.0,
    "gpu_sm_clock": 1.98e9,
    "gpu_memory_clock": 2.619e9,
    "gpu_pcie_transmit": 100 * MIB,
    "gpu_pcie_receive": 200 * MIB,
}


def scrape(world: World, name: str, start: float, seconds: int = 60, without: str = "") -> None:
    """Scrape an exporter once a second; its energy counter rises with the power."""
    text = (SCRAPES / f"{name}.prom").read_text()
    if without:
        text = "\n".join(line for line in text.splitlines() if without not in line) + "\n"
    scrapes = []
    for second in range(seconds):
        joules = 1e6 + WATTS * second
        exposition = text.replace("{energy_mj}", f"{joules * 1000:.0f}").replace("{energy_j}", repr(joules))
        scrapes.append((start + second, exposition.encode()))
    world.write(world.scraped(scrapes, name))


def charted(world: World, run: str, quantity: str, per_device: bool = False) -> set[tuple[str, float]]:
    """Return scope and value of all points of a chart of one run."""
    rows = world.connection.execute(
        "select scope, value from run_chart(array[%s], array[%s], null, null, 10000, true, 10, null, %s)",
        (run, quantity, per_device),
    ).fetchall()
    return {(scope, rounded(value)) for scope, value in rows}


def rounded(value: float) -> float:
    return float(f"{value:.5g}")


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


@pytest.mark.parametrize("exporter", ["dcgm_exporter", "nvidia_gpu_exporter", "nvitop_exporter"])
def test_all_exporters_give_equal_values(world: World, start: float, exporter: str) -> None:
    run = world.run(start, start + 60, gpu=GPU)
    scrape(world, exporter, start)
    for quantity, value in EXPECTED.items():
        assert charted(world, run, quantity) == {("instance", rounded(value))}, quantity
    placements = world.connection.execute(
        "select distinct kind, host, gpu_uuid, gpu_instance_id from places p where exists "
        "(select from series s where s.place_id = p.place_id and quantity like 'gpu%%')"
    ).fetchall()
    assert placements == [("gpu", "node1", GPU, None)]


@pytest.mark.parametrize("exporter", ["node_exporter", "nvitop_exporter"])
def test_exporters_of_hosts_give_equal_values(world: World, start: float, exporter: str) -> None:
    run = world.run(start, start + 60)
    scrape(world, exporter, start)
    assert charted(world, run, "load") == {("host", 3.5)}
    assert charted(world, run, "memory_total") == {("host", rounded(257024 * MIB))}


def test_of_several_exporters_one_counts(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=GPU)
    for exporter in ("nvitop_exporter", "nvidia_gpu_exporter", "dcgm_exporter"):
        scrape(world, exporter, start)
    assert charted(world, run, "gpu_power") == {("instance", WATTS)}
    assert charted(world, run, "gpu_memory_used") == {("instance", rounded(40960 * MIB))}
    rows = world.connection.execute(
        "select mean, total from run_summary where run_id = %s and quantity = 'gpu_power' and metric is null", (run,)
    ).fetchall()
    assert rows == [(pytest.approx(WATTS), pytest.approx(WATTS * 60, rel=0.05))]


@pytest.mark.parametrize(
    ("exporter", "gauges"), [("dcgm_exporter", "DEV_POWER_USAGE"), ("nvidia_gpu_exporter", "power_draw")]
)
def test_an_energy_counter_is_a_power(world: World, start: float, exporter: str, gauges: str) -> None:
    run = world.run(start, start + 60, gpu=GPU)
    scrape(world, exporter, start, without=gauges)
    assert charted(world, run, "gpu_power") == {("instance", WATTS)}


def test_a_gpu_counts_once_however_many_instances_it_has(world: World, start: float) -> None:
    whole = world.run(start, start + 60, gpu=GPU, position=1)
    scrape(world, "dcgm_exporter_mig", start)
    assert charted(world, whole, "gpu_power") == {("instance", WATTS)}
    assert charted(world, whole, "gpu_power", per_device=True) == {("instance", WATTS)}
    row = world.connection.execute(
        "select n, mean, max, total from run_summary where run_id = %s and quantity = 'gpu_power' and metric is null",
        (whole,),
    ).fetchone()
    assert row == (60, WATTS, WATTS, pytest.approx(WATTS * 59, rel=0.02))


def test_a_whole_gpus_power_is_never_an_instances_own(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=GPU, gpu_instance=7)
    scrape(world, "dcgm_exporter_mig", start)
    assert charted(world, run, "gpu_power") == {("device", WATTS)}
    assert charted(world, run, "gpu_memory_used") == {("instance", rounded(4096 * MIB))}
    assert charted(world, run, "gpu_utilization") == {("instance", 0.25)}


@pytest.mark.parametrize(
    ("metric", "quantity"),
    [
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "gpu_pcie_transmit"),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", "gpu_pcie_receive"),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", "gpu_nvlink_transmit"),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", "gpu_nvlink_receive"),
        ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gpu_power_limit"),
        ("DCGM_FI_DEV_PSTATE", "gpu_performance_state"),
    ],
)
def test_what_is_repeated_on_each_instance_is_the_whole_gpus(
    world: World, start: float, metric: str, quantity: str
) -> None:
    whole = world.run(start, start + 60, gpu=GPU, position=1)
    part = world.run(start, start + 60, gpu=GPU, gpu_instance=7, position=2)
    exposition = "".join(f'{metric}{{UUID="{GPU}",GPU_I_ID="{instance}"}} 500\n' for instance in (3, 7)).encode()
    world.write(world.scraped([(start + second, exposition) for second in range(60)], "dcgm"))
    assert charted(world, whole, quantity) == {("device", 500.0)}
    assert charted(world, part, quantity) == {("device", 500.0)}


def test_two_exporters_agree_on_an_instance(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu=GPU, gpu_instance=7)
    name = f'nvidia_smi_mig_memory_used_bytes{{gpu_instance_id="7",uuid="{GPU.removeprefix("GPU-")}"}}'
    world.write(world.scraped([(start + at, f"{name} 4.294967296e+09\n".encode()) for at in range(60)], "smi"))
    assert charted(world, run, "gpu_memory_used") == {("instance", rounded(4096 * MIB))}


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"uuid": GPU}, "gpu"),
        ({"UUID": GPU.upper()}, "gpu"),
        ({"gpu_uuid": GPU, "nvlink": "0"}, "gpu"),
        ({"UUID": GPU, "GPU_I_ID": "3"}, "instance"),
        ({"UUID": GPU, "GPU_I_ID": ""}, "gpu"),
        ({"uuid": "4c4c4544-0044-4810-8035-b4c04f565931"}, "host"),  # a machine's
        ({"uuid": "MIG-9b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"}, "host"),  # of no run that we know
        ({"hostname": "node1"}, "host"),
        ({"run_id": "0" * 32, "UUID": GPU}, "process"),
    ],
)
def test_labels_assign_a_series(world: World, start: float, labels: dict[str, str], kind: str) -> None:
    world.write(world.gauge("something", [start], [1.0], labels))
    rows = world.connection.execute(
        "select kind, p.host, gpu_uuid from series join places p using (place_id)"
    ).fetchall()
    assert rows == [(kind, "node1", GPU if kind in ("gpu", "instance") else None)]


def test_a_mig_instance_is_known_by_the_run_on_it(world: World, start: float) -> None:
    mine = "MIG-9b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
    run = world.run(start, start + 60, gpu=GPU, gpu_instance=7)
    world.connection.execute("update placements set mig_uuid = %s where run_id = %s", (mine, run))
    world.write(world.gauge("gpu_memory_used_MiB", [start + 1], [64.0], {"uuid": mine, "index": "0:0"}))
    assert charted(world, run, "gpu_memory_used") == {("instance", rounded(64 * MIB))}


def test_a_quantity_has_one_unit_and_one_way_to_combine(world: World) -> None:
    rows = world.connection.execute(
        # nvidia_gpu_exporter measures what goes over the bus by instance.
        """
        select quantity, array_agg(distinct unit), array_agg(distinct combine),
               array_agg(distinct whole_device) filter (where metric not like 'nvidia\\_smi\\_mig\\_%')
        from metrics group by quantity
        """
    ).fetchall()
    mixed = [row for row in rows if any(len(values) > 1 for values in row[1:])]
    assert mixed == []
    units = {unit for _, [unit], *_ in rows}
    assert units <= {
        "ratio", "bytes", "bytes/s", "watts", "hertz", "celsius", "cores", "processes", "threads", "seconds", "events/s",
        "flag", "code", "instructions/cycle", "samples/s", "series", "targets", "records",
    }  # fmt: skip


def test_quantities_of_the_dcgm_exporter_are_in_the_catalog(world: World) -> None:
    shown = {counter.field.name for counter in default_list() if counter.type != "label"} | {
        f"DCGM_FI_DEV_{name}" for name in (
            "FB_TOTAL", "VIDEO_CLOCK", "FAN_SPEED", "PSTATE", "ENFORCED_POWER_LIMIT", "ECC_SBE_VOL_TOTAL", "ECC_DBE_VOL_TOTAL",
        )
    }  # fmt: skip
    known = {name for (name,) in world.connection.execute("select metric from metrics").fetchall()}
    assert shown - known == {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"}, "a rate that is announced as a counter"


AMD = "GPU-06ff74a1-0000-1000-806c-000000000000"


@pytest.mark.parametrize(
    ("golden", "gpu", "expected"),
    [
        (
            "amd",
            AMD,
            {
                "gpu_utilization": ("instance", 0.47),
                "gpu_memory_used": ("instance", 175169 * MIB),
                "gpu_power": ("instance", 287.0),
                "gpu_temperature": ("instance", 67.0),
                "gpu_sm_clock": ("instance", 2.105e9),
            },
        ),
        (
            "jetson-agx-orin",
            "JETSON-HOST",
            {
                "gpu_utilization": ("instance", 0.0),
                "gpu_power": ("instance", 3.205),
                "cpu_power": ("host", 4.405),
                "gpu_temperature": ("instance", 47.812),
                "gpu_sm_clock": ("instance", 305e6),
                "memory_used": ("host", 29114 * MIB),
                "memory_controller_utilization": ("host", 0.01),
            },
        ),
        (
            "apple-m1-max",
            "APPLE-HOST",
            {
                "gpu_utilization": ("instance", 0.69216),
                "gpu_power": ("instance", 1.1298),
                "system_power": ("host", 18.952),
                "cpu_temperature": ("host", 55.032),
                "memory_total": ("host", 64 * 1024 * MIB),
            },
        ),
        (
            "intel",
            "INTEL-0000:03:00.0-HOST",
            {
                "gpu_temperature": ("instance", 52.0),
                "gpu_memory_temperature": ("instance", 58.0),
                "gpu_power_limit": ("instance", 190.0),
                "gpu_sm_clock": ("instance", 2.4e9),
            },
        ),
    ],
)
def test_gpus_of_other_makers_are_on_the_same_axis(
    world: World, start: float, golden: str, gpu: str, expected: dict[str, tuple[str, float]]
) -> None:
    run = world.run(start, start + 60, gpu=gpu)
    exposition = (SCRAPES.parent / "golden" / f"{golden}.txt").read_bytes()
    world.write(world.scraped([(start + second, exposition) for second in range(60)], golden))
    for quantity, (scope, value) in expected.items():
        assert charted(world, run, quantity) == {(scope, rounded(value))}, quantity


def test_energy_of_two_sockets_is_their_power(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    scrapes = []
    for second in range(60):
        lines = [
            f'node_rapl_{kind}_joules_total{{index="{index}",path="/sys/class/powercap/intel-rapl:{index}"}} {1e4 + watts * second}'
            for kind, watts in (("package", 150), ("dram", 20), ("core", 100))
            for index in (0, 1)
        ]
        types = [f"# TYPE node_rapl_{kind}_joules_total counter" for kind in ("package", "dram", "core")]
        scrapes.append((start + second, "\n".join([*types, *lines, ""]).encode()))
    world.write(world.scraped(scrapes, "rapl"))
    assert charted(world, run, "cpu_power") == {("host", 300.0)}
    assert charted(world, run, "dram_power") == {("host", 40.0)}
    assert charted(world, run, "cpu_core_power") == {("host", 200.0)}


def test_each_event_of_perf_has_a_quantity_of_its_own(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    scrapes = []
    for second in range(60):
        lines = [
            f'bench_process_perf_events_total{{run_id="{run}",event="{event}"}} {rate * second}\n'
            for event, rate in (("minor-faults", 10), ("mem_load_retired.l3_miss", 4))
        ]
        kind = "# TYPE bench_process_perf_events_total counter\n"
        scrapes.append((start + second, (kind + "".join(lines)).encode()))
    world.write(world.scraped(scrapes, "process"))
    assert charted(world, run, "perf_minor_faults") == {("process", 10)}
    assert charted(world, run, "perf_mem_load_retired_l3_miss") == {("process", 4)}
    units = world.connection.execute(
        "select quantity, unit from metrics where match <> '{}' and metric like 'bench\\_process%' order by quantity"
    ).fetchall()
    assert units == [("perf_mem_load_retired_l3_miss", "events/s"), ("perf_minor_faults", "events/s")]
