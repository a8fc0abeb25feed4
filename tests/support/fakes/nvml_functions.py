"""Functions of NVML for `tests.support.fakes.nvml_double`, called with the fake and the target of the handle."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pynvml

from tests.support.fakes.nvml_cards import MIB, Card, Handle, Process, Slot

if TYPE_CHECKING:
    from tests.support.fakes.nvml_double import NvmlDouble

__all__ = ["FUNCTIONS"]

FUNCTIONS: dict[str, Callable[..., Any]] = {}
_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
_NEWER_NAME = "clocks_event_reasons"


def _nvml(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[f"nvml{function.__name__.title().replace('_', '')}"] = function
    return function


def _refuse(code: int) -> Any:
    raise pynvml.NVMLError(code)


def _not_supported() -> Any:
    _refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)


@_nvml
def shutdown(nvml: NvmlDouble) -> None:
    nvml.restart_driver()


@_nvml
def system_get_driver_version(nvml: NvmlDouble) -> str:
    return nvml.driver


@_nvml
def device_get_count(nvml: NvmlDouble) -> int:
    return len(nvml.cards)


@_nvml
def device_get_handle_by_index(nvml: NvmlDouble, index: int) -> Handle:
    handle = Handle(index, nvml.session)
    nvml.find(handle)
    return handle


def _look_up(function: str, read: Callable[..., Any]) -> None:
    FUNCTIONS[f"nvmlDeviceGet{function}"] = lambda _nvml, card, *arguments: read(card, *arguments)


_look_up(
    "PowerUsage", lambda card: round(card.number("gpu_power_readings/power_draw", "power_readings/power_draw") * 1000)
)
_look_up(
    "EnforcedPowerLimit",
    lambda card: round(
        card.number("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit") * 1000
    ),
)
_look_up("TotalEnergyConsumption", lambda card: _not_supported() if card.energy is None else card.energy)
_look_up(
    "Temperature", lambda card, sensor: int(card.number("temperature/gpu_temp")) if sensor == 0 else _not_supported()
)
_look_up(
    "ClockInfo",
    lambda card, kind: int(
        card.number("clocks/" + ("graphics_clock", "sm_clock", "mem_clock", "video_clock")[kind]),
    ),
)
_look_up("FanSpeed", lambda card: int(card.number("fan_speed")))
_look_up("PerformanceState", lambda card: int(card.text("performance_state")[1:]))
_look_up("PcieReplayCounter", lambda card: int(card.number("pci/replay_counter")))
_look_up("MinorNumber", lambda card: int(card.number("minor_number")))
_look_up("PciInfo", lambda card: pynvml.nvmlPciInfo_t(busId=card.text("pci/pci_bus_id").encode()))
_look_up("EncoderUtilization", lambda card: [int(card.number("utilization/encoder_util")), 1000000])
_look_up("DecoderUtilization", lambda card: [int(card.number("utilization/decoder_util")), 1000000])
_look_up("UUID", lambda one: one.uuid if isinstance(one, Slot) else one.text("uuid"))
_look_up("GpuInstanceId", lambda slot: slot.gpu_instance_id)
_look_up("MaxMigDeviceCount", lambda card: 7)


@_nvml
def device_get_name(nvml: NvmlDouble, one: Card | Slot) -> str:
    if isinstance(one, Card):
        return one.text("product_name")
    card = next(card for card in nvml.cards if one in card.slots)
    return f"{card.text('product_name')} MIG {one.profile}"


@_nvml
def device_get_mig_mode(nvml: NvmlDouble, card: Card) -> list[int]:
    card.text("mig_mode/current_mig")
    return [int(card.mig), int(card.mig)]


@_nvml
def device_get_mig_device_handle_by_index(nvml: NvmlDouble, card: Card, index: int) -> Handle:
    if index >= len(card.slots):
        _refuse(pynvml.NVML_ERROR_NOT_FOUND)
    return Handle(nvml.cards.index(card), nvml.session, card.slots[index].uuid)


@_nvml
def device_get_memory_info(nvml: NvmlDouble, one: Card | Slot, version: int | None = None) -> Any:
    total, reserved, used, free = (mib * MIB for mib in (one.memory() if isinstance(one, Card) else one.memory))
    if version is None:
        return pynvml.c_nvmlMemory_t(total=total, free=free, used=used + reserved)
    assert version == pynvml.nvmlMemory_v2
    if nvml.driver < "510":
        _refuse(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    return pynvml.c_nvmlMemory_v2_t(version=version, total=total, reserved=reserved, free=free, used=used)


@_nvml
def device_get_utilization_rates(nvml: NvmlDouble, card: Card) -> Any:
    percent = [int(card.number(f"utilization/{name}")) for name in ("gpu_util", "memory_util")]
    return pynvml.c_nvmlUtilization_t(*percent)


@_nvml
def device_get_total_ecc_errors(nvml: NvmlDouble, card: Card, kind: int, counter: int) -> int:
    assert counter == pynvml.NVML_VOLATILE_ECC
    wanted = "_uncorrectable" if kind == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED else "_correctable"
    names = [one.tag for one in card.element.iterfind("ecc_errors/volatile/*") if wanted in one.tag]
    return sum(int(card.number(f"ecc_errors/volatile/{name}")) for name in names)


@_nvml
def device_get_remapped_rows(nvml: NvmlDouble, card: Card) -> tuple[int, int, int, int]:
    counts = [int(card.number(f"remapped_rows/remapped_row_{name}")) for name in ("corr", "unc")]
    flags = [int(card.text(f"remapped_rows/remapped_row_{name}") == "Yes") for name in ("pending", "failure")]
    return counts[0], counts[1], flags[0], flags[1]


@_nvml
def device_get_field_values(nvml: NvmlDouble, card: Card, fields: list[int | tuple[int, int]]) -> Any:
    answers = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for answer, requested in zip(answers, fields, strict=True):
        answer.fieldId, answer.scopeId = requested if isinstance(requested, tuple) else (requested, 0)
        answer.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        try:
            if answer.fieldId == pynvml.NVML_FI_DEV_MEMORY_TEMP:
                answer.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
                answer.value.uiVal = int(card.number("temperature/memory_temp"))
            elif answer.fieldId in card.counters:
                answer.value.ullVal = card.counters[answer.fieldId]
            else:
                _not_supported()
        except pynvml.NVMLError as error:
            answer.nvmlReturn = error.value
    return answers


def _reasons(card: Card, *, supported: bool) -> int:
    return sum(
        1 << bit
        for bit, name in enumerate(_REASONS)
        if (text := card.element.findtext(f"clocks_event_reasons/clocks_event_reason_{name}")
            or card.element.findtext(f"clocks_throttle_reasons/clocks_throttle_reason_{name}"))
        and (supported or text == "Active")
    )  # fmt: skip


def _reasons_since(newer: bool, supported: bool) -> Callable[..., int]:
    def read(card: Card) -> int:
        if newer and card.element.find(_NEWER_NAME) is None:  # a driver without this name
            _refuse(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return _reasons(card, supported=supported)

    return read


for _newer, _form in ((True, "EventReasons"), (False, "ThrottleReasons")):
    _look_up(f"CurrentClocks{_form}", _reasons_since(_newer, supported=False))
    _look_up(f"SupportedClocks{_form}", _reasons_since(_newer, supported=True))


def _listing(kinds: tuple[str, ...]) -> Callable[..., list[Any]]:
    def read(nvml: NvmlDouble, one: Card | Slot) -> list[Any]:
        card = one if isinstance(one, Card) else next(card for card in nvml.cards if one in card.slots)
        if card.mig and isinstance(one, Card) and not card.root:
            _refuse(pynvml.NVML_ERROR_NO_PERMISSION)
        return [
            _process(process, one)
            for process in card.processes
            if process.kind in kinds and (isinstance(one, Card) or process.gpu_instance_id == one.gpu_instance_id)
        ]

    return read


def _process(process: Process, of: Card | Slot) -> Any:
    instance = process.gpu_instance_id if isinstance(of, Card) else 2**32 - 1
    fields = {"pid": process.pid, "usedGpuMemory": process.memory, "gpuInstanceId": instance}
    return pynvml.nvmlFriendlyObject(fields)


FUNCTIONS["nvmlDeviceGetComputeRunningProcesses"] = _listing(("C", "C+G", "M+C"))
FUNCTIONS["nvmlDeviceGetGraphicsRunningProcesses"] = _listing(("G", "C+G"))
FUNCTIONS["nvmlDeviceGetMPSComputeRunningProcesses"] = _listing(("M+C",))


@_nvml
def device_get_process_utilization(nvml: NvmlDouble, card: Card, last: int) -> list[Any]:
    if card.utilization is None or card.mig:
        _not_supported()
    samples = [one for one in card.utilization or () if one[1] > last]
    if not samples:
        _refuse(card.no_samples)
    return [pynvml.c_nvmlProcessUtilizationSample_t(pid=pid, timeStamp=at, smUtil=sm) for pid, at, sm in samples]


@_nvml
def device_get_samples(nvml: NvmlDouble, card: Card, kind: int, last: int) -> tuple[int, list[Any]]:
    of_power = kind == pynvml.NVML_TOTAL_POWER_SAMPLES
    if card.buffers is None or (card.mig and not of_power):
        _not_supported()
    if kind not in (buffers := card.buffers or {}):
        _refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    if not any(at > last for at, _ in buffers[kind]):
        _refuse(card.no_samples)
    samples = []
    for at, count in buffers[kind]:
        if at > last or at == 0:  # padding
            samples.append(pynvml.c_nvmlSample_t(timeStamp=at))
            samples[-1].sampleValue.uiVal = count
    return pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, samples


@_nvml
def device_get_supported_event_types(nvml: NvmlDouble, card: Card) -> int:
    return 0 if card.xids is None else int(pynvml.nvmlEventTypeXidCriticalError)


@_nvml
def event_set_create(nvml: NvmlDouble) -> Any:
    events = pynvml.c_nvmlEventSet_t()
    nvml.event_sets[id(events)] = (events, [])
    return events


@_nvml
def device_register_events(nvml: NvmlDouble, card: Card, types: int, events: Any) -> None:
    assert types == pynvml.nvmlEventTypeXidCriticalError
    nvml.event_sets[id(events)][1].append(card)


def _wait(nvml: NvmlDouble, events: Any, timeout: int) -> Any:
    assert timeout == 0, "a read does not wait"
    for card in nvml.event_sets[id(events)][1]:
        if card.xids:
            return pynvml.c_nvmlEventData_t(eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=card.xids.pop(0))
    return _refuse(pynvml.NVML_ERROR_TIMEOUT)


FUNCTIONS["nvmlEventSetWait_v2"] = _wait


@_nvml
def event_set_free(nvml: NvmlDouble, events: Any) -> None:
    del nvml.event_sets[id(events)]


@_nvml
def gpm_query_device_support(nvml: NvmlDouble, card: Card) -> Any:
    return pynvml.c_nvmlGpmSupport_t(version=1, isSupportedDevice=card.gpm is not None)


@_nvml
def gpm_sample_alloc(nvml: NvmlDouble) -> Any:
    room = ctypes.create_string_buffer(8)
    sample = ctypes.cast(room, pynvml.c_nvmlGpmSample_t)
    nvml.samples[_address(sample)] = (room, None, None, 0.0)
    return sample


@_nvml
def gpm_sample_get(nvml: NvmlDouble, card: Card, sample: Any) -> Any:
    return _take(nvml, sample, card, None, card.text("uuid"))


@_nvml
def gpm_mig_sample_get(nvml: NvmlDouble, card: Card, gpu_instance_id: int, sample: Any) -> Any:
    slot = next((slot for slot in card.slots if slot.gpu_instance_id == gpu_instance_id), None)
    if slot is None:
        _refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return _take(nvml, sample, card, gpu_instance_id, slot.uuid if slot else "")


def _take(nvml: NvmlDouble, sample: Any, card: Card, instance: int | None, uuid: str) -> Any:
    if card.gpm is None:
        _not_supported()
    room, *_ = nvml.samples[_address(sample)]
    nvml.samples[_address(sample)] = (room, (card, instance), uuid, nvml.now)
    return sample


@_nvml
def gpm_metrics_get(nvml: NvmlDouble, request: Any) -> Any:
    assert request.version == pynvml.NVML_GPM_METRICS_GET_VERSION
    _, of, first_uuid, first_at = nvml.samples[_address(request.sample1)]
    _, _, second_uuid, second_at = nvml.samples[_address(request.sample2)]
    assert first_uuid == second_uuid, "samples of two instances are not comparable"
    assert second_at - first_at >= 0.1, "samples so close together carry no information"
    card, instance = of
    for index in range(request.numMetrics):
        metric = request.metrics[index]
        value = card.gpm.get(instance, {}).get(metric.metricId)
        metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if value is None else pynvml.NVML_SUCCESS
        metric.value = value or 0.0
    return request


@_nvml
def gpm_sample_free(nvml: NvmlDouble, sample: Any) -> None:
    del nvml.samples[_address(sample)]


def _address(sample: Any) -> int:
    return ctypes.cast(sample, ctypes.c_void_p).value or 0
