"""Experiments, workloads and runs, and the rows that belong to them."""
