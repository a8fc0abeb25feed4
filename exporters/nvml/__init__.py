"""The exporter ``nvml``: NVIDIA GPUs and MIG instances through the driver."""
