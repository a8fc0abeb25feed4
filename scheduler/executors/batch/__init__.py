"""Executor for batch systems: one job per workload, its submission, monitoring and reattachment."""
