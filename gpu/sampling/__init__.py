"""Samples of GPUs: NVML queries, device handles, and a reader of all devices."""
