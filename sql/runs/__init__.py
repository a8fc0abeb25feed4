"""Experiments, workloads and runs, with their dependent rows."""
