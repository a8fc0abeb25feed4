"""Fake of ROCm's package `amdsmi`: the same functions, enumerations, errors and types of answers.

They are those of py-interface/amdsmi_interface.py and amdsmi_exception.py in ROCm/amdsmi. Answers of the MI300X were observed
by ai-dynamo/aiperf (tests/unit/gpu_telemetry/test_amdsmi_collector.py: no edge temperature, ``N/A`` for the average power),
those of the Radeon by yichao-yuan-99/vllm-otel (amd-power-reader/deamon), UUIDs and numbers of two MI325X by a transcript of
`amd-smi list -e`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any


class AmdSmiException(Exception):
    """Base smi exception class."""


class AmdSmiLibraryException(AmdSmiException):
    """Error of the underlying library."""

    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code

    def __str__(self) -> str:
        names = {2: "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported", 34: "AMDSMI_STATUS_DRIVER_NOT_LOADED"}
        return f"Error code:\n\t{self.err_code} | {names.get(self.err_code, 'AMDSMI_STATUS_UNKNOWN_ERROR')}"


class AmdSmiParameterException(AmdSmiException):
    """Parameter of a wrong type."""


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    HOTSPOT = 1
    JUNCTION = 1
    VRAM = 2


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class AmdSmiClkType(IntEnum):
    SYS = 0
    GFX = 0
    MEM = 4


@dataclass(eq=False)
class Gpu:
    """Processor handle with its answers; ``None`` is unsupported."""

    uuid: str = "06ff74a1-0000-1000-806c-000000000000"
    name: str = "AMD Instinct MI300X OAM"
    activity: dict[str, Any] | None = field(
        default_factory=lambda: {"gfx_activity": 47, "umc_activity": 0, "mm_activity": "N/A"}
    )
    power: dict[str, Any] | None = field(
        default_factory=lambda: {
            "current_socket_power": 287, "average_socket_power": "N/A", "gfx_voltage": "N/A", "soc_voltage": "N/A",
            "mem_voltage": "N/A", "power_limit": 750000000,
        }
    )  # fmt: skip
    cap: int | None = 750000000
    ticks: int | None = 41_797_534_008_632
    vram: tuple[int, int] | None = (175169, 196592)
    celsius: dict[int, int] = field(default_factory=lambda: {1: 67, 2: 49})
    megahertz: dict[int, int] = field(default_factory=lambda: {0: 2105, 4: 1300})
    ecc: tuple[int, int] | None = (1, 2)
    numbers: dict[str, Any] | None = None
    processes: list[dict[str, Any]] = field(default_factory=list)
    lost: bool = False


def radeon() -> Gpu:
    """Return a GPU with average power and an edge temperature."""
    return Gpu(
        uuid="deff740f-0000-1000-8082-87300da37c72",
        name="AMD Radeon Pro W7900",
        activity={"gfx_activity": 3, "umc_activity": 1, "mm_activity": 65535},
        power={"current_socket_power": "N/A", "average_socket_power": 40, "power_limit": 300000000},
        cap=300000000,
        ticks=None,
        vram=(1024, 46064),
        celsius={0: 44},
        megahertz={0: 43},
        ecc=None,
    )


def mi325x(number: int, **answers: Any) -> Gpu:
    """Return the first or second GPU of a host with eight, whose order by PCI address is not HIP's; with other `answers`."""
    uuid, rocm, render, hip = (
        ("9fff74b9-0000-1000-8044-4a2fb30adeb0", "GPU-9f444a2fb30adeb0", 185, 7),
        ("b7ff74b9-0000-1000-80d1-81671a192e45", "GPU-b7d181671a192e45", 177, 6),
    )[number]
    numbers = {"drm_render": render, "drm_card": render - 128, "hsa_id": hip + 2, "hip_id": hip, "hip_uuid": rocm}
    return replace(Gpu(uuid=uuid, name="AMD Instinct Mi325X VF", ticks=None, numbers=numbers), **answers)


def process(pid: int, vram_bytes: int) -> dict[str, Any]:
    """Return an entry of `amdsmi_get_gpu_process_list`."""
    return {
        "name": "python3", "pid": pid, "mem": vram_bytes, "engine_usage": {"gfx": 0, "enc": 0},
        "memory_usage": {"gtt_mem": 2 * 2**20, "cpu_mem": 0, "vram_mem": vram_bytes},
    }  # fmt: skip


class AmdSmi:
    """The module."""

    AmdSmiException = AmdSmiException
    AmdSmiLibraryException = AmdSmiLibraryException
    AmdSmiTemperatureType = AmdSmiTemperatureType
    AmdSmiTemperatureMetric = AmdSmiTemperatureMetric
    AmdSmiClkType = AmdSmiClkType

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)
        self.opened = 0
        self.driver = True

    def amdsmi_init(self) -> None:
        if not self.driver:
            raise AmdSmiLibraryException(34)
        self.opened += 1

    def amdsmi_shut_down(self) -> None:
        self._require_open()
        self.opened -= 1

    def amdsmi_get_processor_handles(self) -> list[Gpu]:
        self._require_open()
        return list(self.gpus)

    def amdsmi_get_gpu_device_uuid(self, handle: Gpu) -> str:
        return self._of(handle).uuid

    def amdsmi_get_gpu_enumeration_info(self, handle: Gpu) -> dict[str, Any]:
        return dict(_supported(self._of(handle).numbers))

    def amdsmi_get_gpu_asic_info(self, handle: Gpu) -> dict[str, Any]:
        return {"market_name": self._of(handle).name, "vendor_id": "0x1002"}

    def amdsmi_get_gpu_driver_info(self, handle: Gpu) -> dict[str, Any]:
        self._of(handle)
        return {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "2025/03/20 00:00"}

    def amdsmi_get_gpu_activity(self, handle: Gpu) -> dict[str, Any]:
        return dict(_supported(self._of(handle).activity))

    def amdsmi_get_power_info(self, handle: Gpu) -> dict[str, Any]:
        return dict(_supported(self._of(handle).power))

    def amdsmi_get_power_cap_info(self, handle: Gpu) -> dict[str, Any]:
        cap = _supported(self._of(handle).cap)
        return {"power_cap": cap, "default_power_cap": cap, "dpm_cap": 0, "min_power_cap": 0, "max_power_cap": cap}

    def amdsmi_get_energy_count(self, handle: Gpu) -> dict[str, Any]:
        ticks = _supported(self._of(handle).ticks)
        return {"power": ticks, "energy_accumulator": ticks, "counter_resolution": 15.3, "timestamp": 1}

    def amdsmi_get_gpu_vram_usage(self, handle: Gpu) -> dict[str, Any]:
        used, total = _supported(self._of(handle).vram)
        return {"vram_total": total, "vram_used": used}

    def amdsmi_get_temp_metric(self, handle: Gpu, sensor_type: IntEnum, metric: IntEnum) -> int:
        if not isinstance(sensor_type, AmdSmiTemperatureType) or not isinstance(metric, AmdSmiTemperatureMetric):
            raise AmdSmiParameterException
        return int(_supported(self._of(handle).celsius.get(sensor_type)))

    def amdsmi_get_clock_info(self, handle: Gpu, clock_type: IntEnum) -> dict[str, Any]:
        if not isinstance(clock_type, AmdSmiClkType):
            raise AmdSmiParameterException
        clock = _supported(self._of(handle).megahertz.get(clock_type))
        return {"clk": clock, "min_clk": 132, "max_clk": 2100, "clk_locked": "N/A", "clk_deep_sleep": 0}

    def amdsmi_get_gpu_total_ecc_count(self, handle: Gpu) -> dict[str, Any]:
        correctable, uncorrectable = _supported(self._of(handle).ecc)
        return {"correctable_count": correctable, "uncorrectable_count": uncorrectable, "deferred_count": 0}

    def amdsmi_get_gpu_process_list(self, handle: Gpu) -> list[dict[str, Any]]:
        return self._of(handle).processes

    def _require_open(self) -> None:
        if not self.opened:
            raise AmdSmiLibraryException(32)

    def _of(self, handle: Gpu) -> Gpu:
        self._require_open()
        if not isinstance(handle, Gpu):
            raise AmdSmiParameterException
        if handle.lost:
            raise AmdSmiLibraryException(19)
        return handle


def _supported(answer: Any) -> Any:
    if answer is None:
        raise AmdSmiLibraryException(2)
    return answer


def install(folder: Path, *gpus: str) -> Path:
    """Write the package to `folder`, which belongs in ``PYTHONPATH``, and return the folder.

    Its GPUs are expressions, such as ``mi325x(0)``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = f"AmdSmi({', '.join(gpus)})"
    text = (
        f"{Path(__file__).read_text()}\n\n_SMI = {listed}\n\n\ndef __getattr__(name):\n    return getattr(_SMI, name)\n"
    )
    (folder / "amdsmi.py").write_text(text)
    return folder
