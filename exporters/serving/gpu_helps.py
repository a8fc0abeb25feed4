"""Help texts of the metrics ``bench_gpu_…``, which all exporters of GPUs share."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["GPU_HELPS"]

# In the order of the exposition.
GPU_HELPS: Mapping[str, str] = {
    f"bench_gpu_{name}": text
    for name, text in {
        "info": "Name, driver and modes of the GPU, and the source of its activity metrics.",
        "lost": "1 for a GPU that was present and does not answer.",
        "utilization_ratio": "Share of time in which a kernel ran.",
        "memory_utilization_ratio": "Share of time in which device memory was read or written.",
        "encoder_utilization_ratio": "Share of time in which the video encoder was busy.",
        "decoder_utilization_ratio": "Share of time in which the video decoder was busy.",
        "memory_used_bytes": "Device memory in use.",
        "memory_free_bytes": "Free device memory.",
        "memory_reserved_bytes": "Device memory reserved by driver and firmware.",
        "memory_total_bytes": "Size of device memory.",
        "graphics_active_ratio": "Share of time in which the compute or graphics engine was busy.",
        "sm_active_ratio": "Share of time in which multiprocessors had work, mean over all of them.",
        "sm_occupancy_ratio": "Resident warps, as a share of the multiprocessors' maximum.",
        "tensor_active_ratio": "Share of time in which tensor cores worked.",
        "memory_active_ratio": "Used share of the device memory's bandwidth.",
        "fp64_active_ratio": "Share of time in which the FP64 units worked.",
        "fp32_active_ratio": "Share of time in which the FP32 units worked.",
        "fp16_active_ratio": "Share of time in which the FP16 units worked, without tensor cores.",
        "pcie_transmit_bytes_per_second": "Sent by the GPU over PCIe.",
        "pcie_receive_bytes_per_second": "Received by the GPU over PCIe.",
        "nvlink_transmit_bytes_per_second": "Sent by the GPU over NVLink.",
        "nvlink_receive_bytes_per_second": "Received by the GPU over NVLink.",
        "power_watts": "Power of the whole GPU.",
        "power_peak_watts": "Highest power of the whole GPU since the last sample.",
        "power_limit_watts": "Power limit of the whole GPU.",
        "energy_joules_total": "Energy used by the whole GPU since the driver was loaded.",
        "idle_energy_joules_total": "Idle energy of the whole GPU since the exporter first saw it.",
        "other_energy_joules_total": "Energy of processes outside runs since the exporter first saw the GPU.",
        "temperature_celsius": "Temperature of the GPU, at its hot spot where known.",
        "memory_temperature_celsius": "Temperature of device memory.",
        "clock_hertz": "Clocks of multiprocessors, device memory, graphics and video engines.",
        "fan_speed_ratio": "Speed of the fan, as a share of its maximum.",
        "performance_state": "Performance state, 0 the fastest.",
        "throttled": "Whether the reason limits the clocks now.",
        "pcie_replays_total": "Repeated PCIe transfers since the driver was loaded.",
        "ecc_errors_total": "Memory errors since the driver was loaded.",
        "remapped_rows_total": "Remapped memory rows.",
        "row_remap_failure": "1 where a memory row could not be remapped.",
        "xid_errors_total": "XID errors reported by the driver.",
        "last_xid": "Number of the last XID error, 0 for none.",
        "run_start_time_seconds": "Start of the run in Unix seconds; its totals were 0 then.",
        "run_end_time_seconds": "End of the run in Unix seconds; its other samples are final.",
        "run_processes": "Processes of the run on the GPU.",
        "run_memory_bytes": "Device memory of the run's processes.",
        "other_processes": "Processes outside all runs on the GPU.",
        "other_memory_bytes": "Device memory of processes outside all runs.",
        "other_sm_utilization_ratio": "Share of time in which kernels of processes outside all runs ran.",
        "run_sm_utilization_ratio": "Share of time in which the run's kernels ran.",
        "attributed_energy_joules_total": "The run's share of the whole GPU's energy, by method of attribution.",
    }.items()
}
