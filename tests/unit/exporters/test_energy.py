"""Split of energy: intervals with hand-computed values, and invariants by property tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.exporters.energy.gpu_split import EnergySplit
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuProcess, GpuSample, Sample

GIB = 2**30
WHOLE = Gpu(0, "GPU-0", "NVIDIA Something", 20 * GIB)  # an unknown model, without assumptions
H100 = Gpu(0, "GPU-0", "NVIDIA H100 80GB HBM3", 80 * GIB)  # 70 W idle by its data sheet
SMALL, LARGE = MigInstance(7, "MIG-7", "1g.5gb"), MigInstance(1, "MIG-1", "3g.20gb")
PARTED = Gpu(0, "GPU-0", "NVIDIA Something", 20 * GIB, (SMALL, LARGE), mig_enabled=True)

A, B = "a" * 32, "b" * 32
RUNS = {1: A, 2: B, 3: A}  # process 9 belongs to no run
BY_COUNT, BY_TIME, BY_ACTIVITY, BY_SIZE = "process_count", "sm_time", "instance_activity", "instance_size"


def on(pid: int, share: float | None = None, instance: int | None = None) -> GpuProcess:
    return GpuProcess(pid, None, share, instance)


def at(
    time: float,
    *processes: GpuProcess,
    gpu: Gpu = WHOLE,
    activity: Mapping[int, float] | None = None,
    name: str = "sm_active",
    **metrics: float,
) -> Sample:
    """Return a sample of one GPU; `activity` is by the id of the MIG instance."""
    devices = tuple(
        DeviceSample(one, {name: activity[one.gpu_instance_id]} if activity and one.gpu_instance_id in activity else {})
        for one in gpu.mig
    )
    return Sample(time, "1", (GpuSample(gpu, 0, "0", metrics, devices or (DeviceSample(),), processes),))


def split(*samples: Sample, runs: Mapping[int, str] = RUNS, ended: Mapping[str, float] | None = None) -> EnergySplit:
    split = EnergySplit()
    for sample in samples:
        split.update(sample, runs, ended)
    return split


def parts(split: EnergySplit) -> dict[str, object]:
    """Return the totals, those of runs by ``a sm_time`` or ``a 7 instance_size``."""
    (energy,) = split.totals.values()
    found = {"idle": energy.idle, "other": energy.other}
    for share, joules in energy.runs.items():
        instance = [] if share.instance is None else [str(share.instance.gpu_instance_id)]
        found[" ".join([share.run_id[0], *instance, share.method])] = joules
    return {name: pytest.approx(joules, rel=1e-12) for name, joules in found.items() if joules}


# At first the GPU draws 50 W without processes.
FREE = at(0, power=50, energy=1000)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        # No processes.
        ([FREE, at(10, power=60, energy=1600)], {"idle": 600}),
        # One run has all energy except idle energy.
        ([FREE, at(10, on(1, 0.3), power=300, energy=4000)], {"idle": 500, "a sm_time": 2500}),
        # 2500 J in proportion to the time of their kernels.
        (
            [FREE, at(10, on(1, 0.3), on(2, 0.1), on(9, 0.1), power=300, energy=4000)],
            {"idle": 500, "a sm_time": 1500, "b sm_time": 500, "other": 500},
        ),
        # Two processes of one run add up.
        (
            [FREE, at(10, on(1, 0.3), on(3, 0.1), on(2, 0.4), power=300, energy=4000)],
            {"idle": 500, "a sm_time": 1250, "b sm_time": 1250},
        ),
        # The driver does not report SM time.
        (
            [FREE, at(10, on(1), on(2), on(3), on(9), power=300, energy=4000)],
            {"idle": 500, "a process_count": 1250, "b process_count": 625, "other": 625},
        ),
        # No process computes, but the GPU draws more than idle power.
        (
            [FREE, at(10, on(1, 0.0), on(2, 0.0), power=80, energy=1800)],
            {"idle": 500, "a process_count": 150, "b process_count": 150},
        ),
        # Less than idle power: it becomes the lowest.
        ([FREE, at(10, on(1, 1.0), power=40, energy=1400)], {"idle": 400}),
        ([FREE, at(10, on(1, 1.0), power=40, energy=1450)], {"idle": 400, "a sm_time": 50}),
        ([FREE, at(10, on(1, 1.0), power=60, energy=1400)], {"idle": 400}),
        # Ended processes count with their last known share.
        (
            [FREE, at(10, on(1, 0.6), power=60, energy=1500), at(20, power=60, energy=4000)],
            {"idle": 1000, "a sm_time": 2000},
        ),
        (
            [FREE, at(10, on(1, 0.6), power=60, energy=1500), at(20, on(2, 0.2), power=60, energy=4000)],
            {"idle": 1000, "a sm_time": 1500, "b sm_time": 500},
        ),
        (
            [FREE, at(10, on(1), power=60, energy=1500), at(20, on(2), power=60, energy=4000)],
            {"idle": 1000, "a process_count": 1000, "b process_count": 1000},
        ),
        # Without a counter: power times time, except for gaps.
        (
            [at(0, power=50), at(2, on(1, 1.0), power=100), at(4, on(1, 1.0), power=200)],
            {"idle": 200, "a sm_time": 400},
        ),
        ([at(0, power=50), at(4000, power=100)], {"idle": 6000}),
        # A counter without power: energy over time is the lowest power.
        (
            [at(0, energy=0), at(10, energy=500), at(20, on(1, 1.0), energy=3000)],
            {"idle": 1000, "a sm_time": 2000},
        ),
        # The driver was loaded again, and its counter began at 0.
        (
            [FREE, at(10, on(1, 1.0), power=300, energy=20), at(20, on(1, 1.0), power=300, energy=3020)],
            {"idle": 500, "a sm_time": 2500},
        ),
        # A sample without values is skipped.
        (
            [FREE, at(10, on(1, 1.0)), at(20, on(1, 1.0), power=300, energy=4000)],
            {"idle": 1000, "a sm_time": 2000},
        ),
        # The clock is set back.
        ([FREE, at(-10, on(1, 1.0), power=300, energy=4000)], {"a sm_time": 3000}),
    ],
)  # fmt: skip
def test_a_gpu_without_mig(samples: Sequence[Sample], expected: Mapping[str, object]) -> None:
    assert parts(split(*samples)) == expected


def mig(time: float, *processes: GpuProcess, activity: Mapping[int, float] | None = None, **metrics: float) -> Sample:
    return at(time, *processes, gpu=PARTED, activity=activity, name="sm_active", **metrics)


MIG_FREE = mig(0, power=50, energy=1000)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        # 0.9 of 1 slice, 0.1 of 3.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(2, None, 1), activity={7: 0.9, 1: 0.1}, power=300, energy=2700)],
            {"idle": 500, "a 7 instance_activity": 900, "b 1 instance_activity": 300},
        ),
        # An instance's whole share belongs to its processes.
        (
            [
                MIG_FREE,
                mig(10, on(1, None, 1), on(9, None, 1), on(2, None, 7), activity={7: 1.0, 1: 1.0}, power=300, energy=2500),
            ],
            {"idle": 500, "a 1 instance_activity": 375, "other": 375, "b 7 instance_activity": 250},
        ),
        # A run on two instances.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(3, None, 1), activity={7: 1.0, 1: 1.0}, power=300, energy=2500)],
            {"idle": 500, "a 7 instance_activity": 250, "a 1 instance_activity": 750},
        ),
        # One is active with hidden processes.
        (
            [MIG_FREE, mig(10, on(1, None, 7), activity={7: 1.0, 1: 1.0}, power=300, energy=2500)],
            {"idle": 500, "a 7 instance_activity": 250, "other": 750},
        ),
        # No activity: by the slices of the used instances.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(2, None, 1), power=300, energy=2500)],
            {"idle": 500, "a 7 instance_size": 250, "b 1 instance_size": 750},
        ),
        ([MIG_FREE, mig(10, on(1, None, 7), power=300, energy=2500)], {"idle": 500, "a 7 instance_size": 1000}),
        # Of one instance only: not comparable.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(2, None, 1), activity={7: 1.0}, power=300, energy=2500)],
            {"idle": 500, "a 7 instance_size": 250, "b 1 instance_size": 750},
        ),
        # No instance was busy.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(2, None, 1), activity={7: 0, 1: 0}, power=60, energy=1900)],
            {"idle": 500, "a 7 instance_size": 100, "b 1 instance_size": 300},
        ),
        # The driver does not report the instances of processes.
        (
            [MIG_FREE, mig(10, on(1, None, 7), on(2), activity={7: 1, 1: 1}, power=300, energy=2500)],
            {"idle": 500, "a 7 process_count": 500, "b process_count": 500},
        ),
        # A process ends, then its instance is removed: the last known values count.
        (
            [
                MIG_FREE,
                mig(10, on(1, None, 7), on(2, None, 1), activity={7: 1.0, 1: 1.0}, power=50, energy=1500),
                at(20, on(2, None, 1), gpu=replace(PARTED, mig=(LARGE,)), activity={1: 1.0}, power=60, energy=3000),
            ],
            {"idle": 1000, "a 7 instance_activity": 250, "b 1 instance_activity": 750},
        ),
        # Its successor has its id and another UUID; their energy continues in one series.
        (
            [
                MIG_FREE,
                mig(10, on(1, None, 7), activity={7: 1.0}, power=60, energy=2500),
                at(20, on(3, None, 7), gpu=replace(PARTED, mig=(replace(SMALL, uuid="MIG-8"),)), activity={7: 0.5},
                   power=60, energy=4500),
            ],
            {"idle": 1000, "a 7 instance_activity": 2500},
        ),
        # MIG mode ends, or begins.
        (
            [
                MIG_FREE,
                mig(10, on(1, None, 7), activity={7: 1.0}, power=60, energy=2500),
                at(20, on(2, 0.5), power=60, energy=4000),
                mig(30, on(1, None, 7), activity={7: 1.0}, power=60, energy=5500),
            ],
            {"idle": 1500, "a 7 instance_activity": 1000, "b sm_time": 1000, "a 7 process_count": 500, "b process_count": 500},
        ),
    ],
)  # fmt: skip
def test_a_gpu_with_mig(samples: Sequence[Sample], expected: Mapping[str, object]) -> None:
    assert parts(split(*samples)) == expected


def test_without_sm_activity_that_of_the_graphics_engine_counts() -> None:
    busy = at(
        10, on(1, None, 7), on(2, None, 1), gpu=PARTED, activity={7: 0.5, 1: 0.5}, name="graphics_active",
        power=300, energy=2500,
    )  # fmt: skip
    assert parts(split(MIG_FREE, busy)) == {"idle": 500, "a 7 instance_activity": 250, "b 1 instance_activity": 750}


@pytest.mark.parametrize(
    ("profile", "share"), [("1g.5gb", 250), ("1g.5gb+me", 250), ("2g.10gb", 400), ("7g.40gb", 700), ("odd", 250)]
)
def test_slices_of_a_profile(profile: str, share: float) -> None:
    gpu = replace(PARTED, mig=(replace(SMALL, profile=profile), LARGE))
    found = parts(split(MIG_FREE, at(10, on(1, None, 7), on(2, None, 1), gpu=gpu, power=300, energy=2500)))
    assert found["a 7 instance_size"] == share


def test_a_gpu_never_seen_idle_has_its_data_sheets_idle_power() -> None:
    busy = [at(10 * n, on(1, 1.0), gpu=H100, power=500, energy=5000 * n) for n in range(3)]
    found = split(*busy)
    assert parts(found) == {"idle": 1400, "a sm_time": 8600}
    found.update(at(30, gpu=H100, power=300, energy=13000), RUNS)
    assert parts(found) == {"idle": 2100, "a sm_time": 10900}, "processes of the previous sample count"
    found.update(at(40, gpu=H100, power=90, energy=14000), RUNS)
    assert parts(found) == {"idle": 3100, "a sm_time": 10900}
    found.update(at(50, on(1, 1.0), gpu=H100, power=500, energy=19000), RUNS)
    assert parts(found) == {"idle": 4000, "a sm_time": 15000}, "from then on the observed 90 W count"


@pytest.mark.parametrize("counter", [True, False])
@pytest.mark.parametrize("at_second", [0, 1, 5, 12, 25])
def test_a_single_low_reading_does_not_lower_the_idle_power(counter: bool, at_second: int) -> None:
    """50 W without processes, then 300 W of a run; at one second the sensor reads 5 W."""
    found, energy = EnergySplit(), 1000.0
    totals: list[tuple[float, ...]] = []
    for second in range(30):
        watts = 50.0 if second < 10 else 300.0
        energy += watts if second else 0
        processes = [on(1, 1.0)] if second >= 10 else []
        read = 5.0 if second == at_second else watts
        sample = at(second, *processes, power=read, energy=energy) if counter else at(second, *processes, power=read)
        found.update(sample, RUNS)
        (total,) = found.totals.values()
        totals.append((total.idle, *total.runs.values()))
    last = [now - before for now, before in zip(totals[29], totals[26], strict=True)]
    assert last == [pytest.approx(3 * 50), pytest.approx(3 * 250)]


def test_a_low_reading_under_load_at_the_start_is_no_idle_power() -> None:
    readings = [5.0, *[300.0] * 9]
    found = split(*(at(second, on(1, 1.0), gpu=H100, power=watts) for second, watts in enumerate(readings)))
    (total,) = found.totals.values()
    found.update(at(10, on(1, 1.0), gpu=H100, power=300), RUNS)
    idle = total.idle
    found.update(at(11, on(1, 1.0), gpu=H100, power=300), RUNS)
    assert total.idle - idle == pytest.approx(70), "the data sheet's"


def test_sustained_power_below_the_lowest_becomes_idle_power() -> None:
    """After a training a GPU cools down, and draws less than at first."""
    cooling = [at(second, power=max(90.0 - second, 60.0)) for second in range(60)]
    busy = [at(60 + second, on(1, 1.0), power=300.0) for second in range(2)]
    assert parts(split(*cooling, *busy))["a sm_time"] == pytest.approx(2 * 240)


def test_an_unknown_gpu_that_was_never_free_says_so() -> None:
    busy = [at(10 * n, on(1, 0.5), on(2, 0.5), power=300 + 200 * n, energy=5000 * n) for n in range(3)]
    assert parts(split(*busy)).keys() == {"idle", "a sm_time_no_idle", "b sm_time_no_idle"}
    later = [
        at(30, power=50, energy=10500),
        at(40, power=50, energy=11000),
        at(50, on(1, 1.0), power=300, energy=14000),
    ]
    assert parts(split(*busy, *later))["a sm_time"] == 2500


def test_a_counter_that_is_read_late_adds_no_idle_energy_to_a_run() -> None:
    """50 W idle and 100 W of the run for 20 s. The counter is read 3 s and 1.1 s after the clock in between."""
    read = [
        at(clock, on(1, 1.0), power=150, energy=1000 + 150 * moment)
        for clock, moment in ((10, 13), (12, 13.1), (20, 20))
    ]
    assert parts(split(FREE, *read)) == {"idle": 1000, "a sm_time": 2000}


def test_energy_of_processes_after_the_runs_end_is_other() -> None:
    """A process outlives its run: its energy after the sample that follows the end is other energy."""
    found = split(FREE, at(10, on(1, 1.0), power=300, energy=4000))
    found.update(at(20, on(1, 1.0), power=300, energy=7000), RUNS, {A: 15.0})
    assert parts(found) == {"idle": 1000, "a sm_time": 5000}
    found.update(at(30, on(1, 1.0), power=300, energy=10000), RUNS, {A: 15.0})
    assert parts(found) == {"idle": 1500, "a sm_time": 5000, "other": 2500}


def test_a_lost_gpu_continues_after_its_return() -> None:
    lost = Sample(10, "1", (), {"GPU-0": "it fell off the bus"})
    assert parts(split(FREE, at(5, on(1, 1.0), power=300, energy=2000), lost, at(20, power=60, energy=3000))) == {
        "idle": 1000, "a sm_time": 1000,
    }  # fmt: skip


def test_a_gpu_without_energy_and_power_has_no_totals() -> None:
    found = split(at(0), at(10, on(1, 1.0)))
    assert found.totals == {}
    found.update(at(20, on(1, 1.0), power=50), RUNS)
    found.update(at(30, on(1, 1.0), power=50), RUNS)
    assert parts(found) == {"idle": 500}


def test_totals_of_unneeded_runs_are_dropped() -> None:
    found = split(FREE, at(10, on(1, 0.5), on(2, 0.5), power=300, energy=4000))
    found.forget(lambda run_id: run_id == B)
    assert parts(found) == {"idle": 500, "b sm_time": 1250}


INSTANCES = [MigInstance(number, f"MIG-{number}", profile) for number, profile in ((1, "3g.20gb"), (7, "1g.5gb"))]
NEXT = [replace(one, uuid=one.uuid + "-again") for one in INSTANCES]


def test_without_the_share_of_mps_clients_all_processes_have_equal_parts() -> None:
    """Where the server is not visible, as to a user under ``hidepid``."""
    client = GpuProcess(2, None, None, mps=True)
    found = split(at(0, energy=0, power=50), at(1, on(1, 0.5), client, energy=1050, power=50))
    assert parts(found) == {
        "idle": 50,
        f"a {BY_COUNT}": pytest.approx(500),
        f"b {BY_COUNT}": pytest.approx(500),
    }


def test_clients_of_an_mps_server_have_equal_parts_of_its_share() -> None:
    clients = [GpuProcess(pid, None, None, mps=True, mps_utilization=0.2) for pid in (2, 3)]
    found = split(at(0, energy=0, power=50), at(1, on(9, 0.8), *clients, energy=1050, power=50))
    assert parts(found) == {
        "idle": 50, "other": pytest.approx(800), "a mps_clients": pytest.approx(100), "b mps_clients": pytest.approx(100),
    }  # fmt: skip


RATIOS = st.floats(0, 1)


@st.composite
def moments(draw: st.DrawFn) -> Sample:
    """Return a sample of two GPUs, with time and energy as increases since the previous one."""
    gpus = []
    for index in range(2):
        if draw(st.booleans()) and draw(st.booleans()):
            continue  # lost
        mig = draw(st.booleans())
        instances = tuple(draw(st.sampled_from([[], INSTANCES, NEXT, INSTANCES[:1]]))) if mig else ()
        gpu = Gpu(
            index, f"GPU-{index}", draw(st.sampled_from(["H100 80GB", "X"])), 80 * GIB, instances, mig_enabled=mig
        )
        activities = st.none() | RATIOS
        devices = [
            DeviceSample(one, {} if (active := draw(activities)) is None else {"sm_active": active})
            for one in instances
        ]
        pids = draw(st.sets(st.sampled_from([1, 2, 3, 8, 9]), max_size=4))
        processes = [
            GpuProcess(
                pid,
                None,
                None if mig else draw(st.none() | RATIOS),
                draw(st.sampled_from([1, 7, None])) if mig else None,
            )
            for pid in sorted(pids)
        ]
        metrics = {"energy": float(draw(st.integers(0, 10**7))) / 1000}
        if draw(st.booleans()):
            metrics["power"] = draw(st.floats(0, 700))
        gpus.append(GpuSample(gpu, index, "0", metrics, tuple(devices), tuple(processes)))
    return Sample(draw(st.floats(0, 100)), "1", tuple(gpus))


@given(st.lists(moments(), max_size=12), st.dictionaries(st.sampled_from([A, B]), st.floats(0, 500)))
def test_parts_sum_up_to_the_whole_gpu_and_never_fall(steps: list[Sample], ended: dict[str, float]) -> None:
    found = EnergySplit()
    time, counters, first = 0.0, {"GPU-0": 1e6, "GPU-1": 2e9}, dict[str, float]()
    totals: dict[object, float] = {}
    for step in steps:
        time += step.time
        gpus = []
        for one in step.gpus:
            counters[one.gpu.uuid] += one.metrics["energy"]
            first.setdefault(one.gpu.uuid, counters[one.gpu.uuid])
            gpus.append(replace(one, metrics={**one.metrics, "energy": counters[one.gpu.uuid]}))
        found.update(replace(step, time=time, gpus=tuple(gpus)), RUNS, ended)
        assert found.totals.keys() == first.keys()
        for uuid, energy in found.totals.items():
            every: dict[object, float] = {"idle": energy.idle, "other": energy.other}
            every.update(energy.runs.items())
            for name, joules in every.items():
                assert joules >= totals.get((uuid, name), 0.0), name
                totals[uuid, name] = joules
            if any(one.gpu.uuid == uuid for one in gpus):
                whole = counters[uuid] - first[uuid]
                assert sum(every.values()) == pytest.approx(whole, rel=1e-9, abs=1e-9)
