"""Cooldown before a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from hypergauge.gpu import Gpu
from hypergauge.scheduler.plan.cooldown import Cooldown, excesses
from hypergauge.sql.queries.live import NewestValue

COLD = {("gpu_temperature", "GPU-a"): 40.0, ("gpu_power", "GPU-a"): 60.0, ("load", None): 0.2}


def temperature(value: float, at: float = 100, gpu: str = "GPU-a") -> NewestValue:
    return NewestValue("gpu_temperature", gpu, value, at)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([temperature(43)], []),
        ([temperature(43.1)], ["43.1 °C (before 40 °C)"]),
        ([temperature(20)], []),  # colder is fine
        ([NewestValue("gpu_power", "GPU-a", 66, 100)], []),
        ([NewestValue("gpu_power", "GPU-a", 250, 100)], ["250 W (before 60 W)"]),
        ([NewestValue("load", None, 0.7, 100)], []),
        ([NewestValue("load", None, 1.7, 100)], ["load 1.7 (before 0.2)"]),
        (
            [temperature(71), NewestValue("gpu_power", "GPU-a", 250, 100)],
            ["71 °C (before 40 °C)", "250 W (before 60 W)"],
        ),
        ([temperature(40, at=99)], ["not measured yet (before 40 °C)"]),  # before the last workload had ended
        ([temperature(71, gpu="GPU-b")], []),
        ([], []),
    ],
)
def test_values_above_their_baseline_are_reported(found: list[NewestValue], expected: list[str]) -> None:
    assert list(map(str, excesses(COLD, found, since=99.5, now=101))) == expected


def test_what_is_measured_no_more_is_not_waited_for() -> None:
    assert excesses(COLD, [temperature(71, at=100)], since=99, now=115) != []
    assert excesses(COLD, [temperature(71, at=100)], since=99, now=116) == []
    assert excesses(COLD, [temperature(71, at=50)], since=99, now=115) == []


@dataclass
class Machine:
    """Machine with a GPU that cools by 10 °C per second of waiting, down to 40 °C."""

    temperatures: dict[str, float] = field(default_factory=lambda: {"GPU-a": 40.0})
    load: float | None = 0.2
    now: float = 1000.0
    messages: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.temperatures = {uuid: max(40.0, value - 10 * seconds) for uuid, value in self.temperatures.items()}

    def look(self, uuids: Sequence[str]) -> list[NewestValue]:
        found = [temperature(value, self.now, uuid) for uuid, value in self.temperatures.items() if uuid in uuids]
        return [*found, *([] if self.load is None else [NewestValue("load", None, self.load, self.now)])]

    def cooldown(self, limit: float = 300) -> Cooldown:
        return Cooldown(limit, self.look, sleep=self.sleep, clock=lambda: self.now)


GPUS = [Gpu(0, "GPU-a", "NVIDIA H100", 80 << 30), Gpu(1, "GPU-b", "NVIDIA H100", 80 << 30)]


def test_a_workload_waits_for_its_gpus() -> None:
    machine = Machine()
    cooldown = machine.cooldown()
    cooldown.before_workload(GPUS[:1], GPUS[:1], machine.messages.append)
    assert machine.now == 1000
    machine.temperatures["GPU-a"], machine.load = 70, 5
    cooldown.before_workload(GPUS[:1], GPUS[:1], machine.messages.append)
    assert machine.now == 1003
    assert machine.messages == [
        "waits to cool down, 300 s at most: GPU 0 70 °C (before 40 °C)",
        "has cooled down after 3.0 s",
    ]


def test_a_workload_without_gpus_waits_for_the_load_and_no_longer_than_the_limit() -> None:
    machine = Machine()
    cooldown = machine.cooldown(limit=20)
    cooldown.before_workload([], GPUS[:1], machine.messages.append)
    machine.temperatures["GPU-a"], machine.load = 90, 5
    cooldown.before_workload([], GPUS[:1], machine.messages.append)
    assert machine.now == 1020
    assert machine.messages[-1] == "starts after 20 s without having cooled down: load 5 (before 0.2)"


def test_a_gpu_that_is_not_measured_holds_nothing_back() -> None:
    machine = Machine(load=None)
    cooldown = machine.cooldown()
    cooldown.before_workload(GPUS, GPUS, machine.messages.append)
    assert machine.now == 1005  # a first sample may be on its way
    machine.temperatures["GPU-b"] = 90
    cooldown.before_workload(GPUS[1:], GPUS, machine.messages.append)
    assert (machine.now, machine.messages) == (1005, [])


def test_missing_measurements_are_reported() -> None:
    machine = Machine(temperatures={}, load=None)
    cooldown = machine.cooldown()
    cooldown.before_workload([], [], machine.messages.append)
    cooldown.before_workload([], [], machine.messages.append)
    assert machine.messages == [
        "starts without a cooldown: neither temperature nor power nor load of this host is measured"
    ]


def test_an_interrupt_ends_the_waiting() -> None:
    machine = Machine()

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    cooldown = Cooldown(300, machine.look, sleep=interrupted, clock=lambda: machine.now)
    cooldown.before_workload(GPUS[:1], GPUS[:1], machine.messages.append)
    machine.temperatures["GPU-a"] = 90
    with pytest.raises(KeyboardInterrupt):
        cooldown.before_workload(GPUS[:1], GPUS[:1], machine.messages.append)
