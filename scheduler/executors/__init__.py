"""Executors: workloads on other hosts."""
