"""Comparison of runs, rows or workloads."""
