"""Simulated hardware: devices, load, power, heat and MIG instances, in a file that processes share."""
