"""GPUs of several vendors on one host: how they are named, and the variables that show and hide them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory, inventory, load
from hypergauge.gpu.vendors import VisibleGpu, contradicting, visibility
from tests.support.exporters.intel import lay_out_card
from tests.support.fakes.amdsmi import AmdSmi, AmdSmiLibraryException, Gpu, mi325x, radeon
from tests.unit.gpu.test_mig import Overridden

Listed = Callable[..., Inventory]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Listed:
    """List a host with AMD's GPUs, and simulated ones in the place of NVIDIA's."""

    def listed(*gpus: Gpu, simulate: str | None = None) -> Inventory:
        monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(*gpus))
        return inventory(simulate, root=tmp_path)

    return listed


def lay_out(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / "proc/device-tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_an_amd_gpu_has_the_uuids_of_its_tools_and_of_its_runtime(host: Listed) -> None:
    found = host(mi325x(0), mi325x(1))
    assert found.reason is None
    assert found.vendors == ("amd",)
    first, second = found.gpus
    assert (first.index, first.name, first.memory_bytes) == (0, "AMD Instinct Mi325X VF", 196592 * 2**20)
    assert first.uuid == "GPU-9fff74b9-0000-1000-8044-4a2fb30adeb0"
    assert first.visible == VisibleGpu("amd", "GPU-9f444a2fb30adeb0", ("/dev/kfd", "/dev/dri/renderD185"))
    for word in ("1", "amd:1", "AMD:1", "b7ff74b9-0000-1000-80d1-81671a192e45", second.uuid, "GPU-b7d181671a192e45",
                 "GPU-b7d1", "amd:GPU-b7"):  # fmt: skip
        assert found.find(word) is second, word


@pytest.mark.parametrize(
    ("numbers", "known"),
    [
        (None, "0"),  # an old library
        ({"hip_id": 3, "hip_uuid": "N/A", "drm_render": 128}, "3"),
        ({"hip_id": 3, "hip_uuid": "GPU-XX", "drm_render": 128}, "3"),
        ({"hip_id": "N/A", "hip_uuid": "GPU-0000000000000000", "drm_render": 128}, "0"),
        ({"hip_id": 2**32 - 1, "hip_uuid": "", "drm_render": 2**32 - 1}, "0"),
    ],
)
def test_without_a_uuid_the_number_of_hip_counts_and_containers_see_all_nodes(
    host: Listed, numbers: dict[str, object] | None, known: str
) -> None:
    (gpu,) = host(Gpu(numbers=numbers)).gpus
    assert gpu.visible == VisibleGpu("amd", known, ("/dev/kfd", "/dev/dri"))


def test_partitions_with_one_uuid_are_told_apart_by_number(host: Listed) -> None:
    parts = [Gpu(numbers={"hip_id": number, "hip_uuid": "GPU-9f444a2fb30adeb0"}) for number in (0, 1)]
    assert [gpu.visible.id for gpu in host(*parts).gpus] == ["0", "1"]


def test_a_gpu_without_a_uuid_is_that_of_its_host(host: Listed) -> None:
    (gpu,) = host(Gpu(uuid="00000000-0000-0000-0000-000000000000")).gpus
    assert gpu.uuid == f"AMD-0-{platform.node()}"
    assert host(Gpu(uuid="00000000-0000-0000-0000-000000000000")).find(gpu.uuid) == gpu


def test_a_driver_without_a_library_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert "amdsmi" not in (inventory(root=tmp_path).reason or "")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert "`pip install amdsmi`" in (inventory(root=tmp_path).reason or "")
    assert inventory("1xH100", root=tmp_path).reason is None, "it may be a processor's own GPU"
    broken = AmdSmi()
    broken.driver = False
    monkeypatch.setitem(sys.modules, "amdsmi", broken)
    assert "AMDSMI_STATUS_DRIVER_NOT_LOADED" in (inventory(root=tmp_path).reason or "")


def test_the_library_is_closed_after_an_error(host: Listed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = AmdSmi(Gpu())
    monkeypatch.setitem(sys.modules, "amdsmi", smi)

    def lost() -> list[Gpu]:
        raise AmdSmiLibraryException(34)

    monkeypatch.setattr(smi, "amdsmi_get_processor_handles", lost)
    found = inventory(root=tmp_path)
    assert (found.gpus, smi.opened) == ((), 0)
    assert "AMDSMI_STATUS_DRIVER_NOT_LOADED" in (found.reason or "")


def test_a_number_means_nvidias_where_there_are_some(host: Listed) -> None:
    found = host(mi325x(0), radeon(), simulate="2xH100")
    assert found.vendors == ("nvidia", "amd")
    assert [found.word(gpu) for gpu in found.gpus] == ["0", "1", "amd:0", "amd:1"]
    assert [gpu.label for gpu in found.gpus] == ["GPU 0", "GPU 1", "AMD GPU 0", "AMD GPU 1"]
    assert [found.find(word).vendor for word in ("0", "nvidia:1", "amd:1")] == ["nvidia", "nvidia", "amd"]
    assert [host(mi325x(0)).word(gpu) for gpu in host(mi325x(0)).gpus] == ["0"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("2", "device 2 does not exist: this host has GPUs 0, 1, amd:0"),
        (":0", "device :0 has an unknown vendor '' (one of: nvidia, amd, "),
        ("amd:3", "device amd:3 does not exist: this host has nvidia:0, nvidia:1, amd:0 (did you mean 'amd:0'?)"),
        ("jetson:0", "device jetson:0 does not exist: this host has nvidia:0, nvidia:1, amd:0"),
        ("adm:0", "device adm:0 has an unknown vendor 'adm' (did you mean 'amd'?)"),
        (
            "GPU-9f444a2fb30adeb1",
            "device GPU-9f444a2fb30adeb1 does not exist: this host has GPUs 0, 1, amd:0 (did you mean ",
        ),
    ],
)
def test_an_unknown_device_is_refused_with_the_nearest(host: Listed, word: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        host(mi325x(0), simulate="2xH100").find(word)
    assert str(caught.value).startswith(message)


def test_a_number_of_two_other_vendors_is_ambiguous(host: Listed, programs: Path) -> None:
    (programs / "macmon").write_text("#!/bin/sh\n")
    (programs / "macmon").chmod(0o755)
    found = host(mi325x(0))
    with pytest.raises(BadRequest, match=r"device 0 is ambiguous: write the vendor too, for GPUs amd:0, apple:0"):
        found.find("0")
    assert found.find("apple:0").uuid == f"APPLE-{platform.node()}"


def test_a_jetson_has_one_gpu_unless_nvml_lists_it(tmp_path: Path) -> None:
    lay_out(tmp_path, compatible="nvidia,p3737-0000\0nvidia,tegra234\0", model="NVIDIA Jetson AGX Orin\0")
    found = inventory(root=tmp_path)
    (gpu,) = found.gpus
    assert (found.reason, gpu.name, gpu.uuid) == (None, "NVIDIA Jetson AGX Orin", f"JETSON-{platform.node()}")
    assert (gpu.memory_bytes or 0) > 2**28
    assert found.find("0") is found.find("jetson:0") is gpu
    assert visibility([gpu.visible], found.vendors) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert inventory("1xH100", root=tmp_path).vendors == ("nvidia",)


def test_intels_gpus_are_numbered_as_level_zero_numbers_their_tiles(tmp_path: Path) -> None:
    lay_out_card(tmp_path, "card0", "0000:00:02.0", driver="i915")  # the processor's own
    lay_out_card(tmp_path, "card2", "0000:03:00.0", tiles=2)
    lay_out_card(tmp_path, "card1", "0000:0a:00.0")
    lay_out_card(tmp_path, "card3", "0000:0b:00.0", vendor="0x1002", driver="amdgpu")
    found = inventory(root=tmp_path)
    assert [(gpu.index, gpu.uuid, gpu.visible) for gpu in found.gpus] == [
        (0, f"INTEL-0000:03:00.0-{platform.node()}", VisibleGpu("intel", "1,2", ("/dev/dri",))),
        (1, f"INTEL-0000:0a:00.0-{platform.node()}", VisibleGpu("intel", "3", ("/dev/dri",))),
    ]
    for word in ("intel:1", "1", found.gpus[1].uuid):
        assert found.find(word) is found.gpus[1]
    assert visibility([one.visible for one in found.gpus], found.vendors) == {
        "ZE_AFFINITY_MASK": "1,2,3",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
    }
    assert visibility([], found.vendors)["ZE_AFFINITY_MASK"] == "999"


def test_a_jetson_that_nvml_lists_without_memory_is_one_all_the_same(tmp_path: Path) -> None:
    lay_out(tmp_path, compatible="nvidia,tegra234\0", model="NVIDIA Jetson AGX Orin\0")

    def unsupported(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    nvml = Overridden(load("1xH100"), nvmlDeviceGetMemoryInfo=unsupported)
    found = inventory(nvml=nvml, root=tmp_path)
    assert (found.vendors, found.reason) == (("jetson",), None)
    [gpu], [listed] = found.gpus, inventory(nvml=nvml, root=tmp_path / "other").gpus
    assert (gpu.uuid, gpu.name, gpu.visible.id) == (listed.uuid, listed.name, "0")
    assert (gpu.memory_bytes or 0) > 2**28
    assert (listed.vendor, listed.memory_bytes) == ("nvidia", None), "on another machine, such as a GB10"


@pytest.mark.parametrize(
    ("visible", "present", "variables"),
    [
        ([], [], {}),
        ([], ["nvidia"], {"CUDA_VISIBLE_DEVICES": ""}),
        # HIP would read an empty value like a missing one.
        ([], ["amd"], {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}),
        ([], ["apple"], {}),
        ([("nvidia", "GPU-1"), ("nvidia", "GPU-2")], ["nvidia"], {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}),
        # HIP numbers what ROCm's runtime leaves.
        ([("amd", "GPU-7"), ("amd", "GPU-3")], ["amd"],
         {"ROCR_VISIBLE_DEVICES": "GPU-7,GPU-3", "HIP_VISIBLE_DEVICES": "0,1"}),
        ([("amd", "6")], ["nvidia", "amd"],
         {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "6", "HIP_VISIBLE_DEVICES": "0"}),
        ([("nvidia", "MIG-1")], ["nvidia", "amd"],
         {"CUDA_VISIBLE_DEVICES": "MIG-1", "ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}),
    ],
)  # fmt: skip
def test_the_variables_show_the_devices_and_hide_all_others(
    visible: list[tuple[str, str]], present: list[str], variables: dict[str, str]
) -> None:
    assert visibility([VisibleGpu(*one) for one in visible], present) == variables


def test_only_variables_that_contradict_are_not_inherited() -> None:
    assert contradicting(["nvidia", "jetson"]) == set()
    assert contradicting(["amd"]) == {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
