"""MIG instances through NVML: positions, creation and removal, with and without root."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from hypergauge.core.errors import GpuUnavailable
from hypergauge.gpu import inventory, load
from hypergauge.gpu.mig import MigControl, NotPermitted
from hypergauge.gpu.models import MODELS


class Overridden:
    """NVML with replaced functions."""

    def __init__(self, nvml: Any, **functions: Any) -> None:
        self._nvml = nvml
        self.__dict__ |= functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nvml, name)


def forbidden(*_: object) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)


@pytest.fixture
def nvml() -> Any:
    return load("1xA100:mig,1xA30:2x1g.6gb,1xT4")


@pytest.fixture
def gpus(nvml: Any) -> list[str]:
    return [gpu.uuid for gpu in inventory(nvml=nvml).gpus]


def test_a_layout_lists_profiles_and_instances(nvml: Any, gpus: list[str]) -> None:
    control = MigControl(nvml)
    a100, a30, t4 = (control.layout(uuid) for uuid in gpus)
    for layout, model in ((a100, "A100"), (a30, "A30")):
        assert layout.mig_enabled
        assert set(layout.profiles) == set(MODELS[model].profiles)
    assert (t4.mig_enabled, t4.profiles, t4.instances) == (False, (), ())
    assert [(one.profile.name, one.start) for one in a30.instances] == [("1g.6gb", 0), ("1g.6gb", 1)]
    assert {one.uuid for one in a30.instances} == {one.uuid for one in inventory(nvml=nvml).gpus[1].mig}
    assert (a100.index, a100.name, a30.index) == (0, "NVIDIA A100-SXM4-40GB", 1)


def test_instances_are_created_at_a_position_and_removed(nvml: Any, gpus: list[str]) -> None:
    control = MigControl(nvml)
    made = [control.create(gpus[0], "3g.20gb", 4), control.create(gpus[0], "1g.5gb", 2)]
    there = control.layout(gpus[0]).instances
    assert {(one.gpu_instance_id, one.uuid, one.profile.name, one.start) for one in there} == {
        (made[0].gpu_instance_id, made[0].uuid, "3g.20gb", 4),
        (made[1].gpu_instance_id, made[1].uuid, "1g.5gb", 2),
    }
    for _ in range(2):
        control.remove(gpus[0], made[0].gpu_instance_id)
        assert [one.uuid for one in control.layout(gpus[0]).instances] == [made[1].uuid]


@pytest.mark.parametrize(
    ("gpu", "profile", "start", "message"),
    [
        (0, "1g.5gb", 0, "no room"),
        (0, "3g.71gb", 0, "3g.71gb"),
        (2, "1g.5gb", 0, "no MIG profile"),
        (None, "1g.5gb", 0, "Not Found"),
    ],
)
def test_impossible_instances_are_refused(
    nvml: Any, gpus: list[str], gpu: int | None, profile: str, start: int, message: str
) -> None:
    control = MigControl(nvml)
    control.create(gpus[0], "4g.20gb", 0)
    with pytest.raises(GpuUnavailable) as caught:
        control.create("GPU-0" if gpu is None else gpus[gpu], profile, start)
    assert message in str(caught.value)
    assert len(control.layout(gpus[0]).instances) == 1


def test_an_incomplete_instance_is_removed(nvml: Any, gpus: list[str]) -> None:
    with pytest.raises(NotPermitted):
        MigControl(Overridden(nvml, nvmlGpuInstanceCreateComputeInstance=forbidden)).create(gpus[0], "3g.20gb", 4)
    assert MigControl(nvml).layout(gpus[0]).instances == ()


def test_without_root_instances_have_no_positions(nvml: Any, gpus: list[str]) -> None:
    control = MigControl(
        Overridden(
            nvml,
            nvmlDeviceGetGpuInstanceById=forbidden,
            nvmlDeviceCreateGpuInstanceWithPlacement=forbidden,
            nvmlDeviceGetComputeRunningProcesses=forbidden,
        )
    )
    there = control.layout(gpus[1]).instances
    assert [(one.profile.name, one.start, one.uuid is not None) for one in there] == [("1g.6gb", None, True)] * 2
    with pytest.raises(NotPermitted):
        control.create(gpus[0], "1g.5gb", 0)
    with pytest.raises(NotPermitted):
        control.remove(gpus[1], there[0].gpu_instance_id)


def test_removal_waits_for_an_exiting_process(nvml: Any, gpus: list[str]) -> None:
    destroyed: list[object] = []

    def destroy(instance: object) -> None:
        destroyed.append(instance)
        if len(destroyed) == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
        nvml.nvmlComputeInstanceDestroy(instance)

    control = MigControl(Overridden(nvml, nvmlComputeInstanceDestroy=destroy))
    control.remove(gpus[1], 3)
    assert len(control.layout(gpus[1]).instances) == 1
    destroyed.clear()
    with pytest.raises(GpuUnavailable, match="MIG instance 4"):
        control.remove(gpus[1], 4, timeout=0.0)


def test_processes_of_the_gpu_and_its_instances(nvml: Any, gpus: list[str]) -> None:
    calls: list[object] = []

    def processes(handle: object) -> list[SimpleNamespace]:
        calls.append(handle)
        return [SimpleNamespace(pid=len(calls), usedGpuMemory=None)]

    layout = MigControl(Overridden(nvml, nvmlDeviceGetComputeRunningProcesses=processes)).layout(gpus[1])
    assert [one.pids for one in layout.instances] == [{1}, {2}]
    assert layout.pids == {1, 2, 3}
