"""NVML's functions, answered by the simulated hardware."""
