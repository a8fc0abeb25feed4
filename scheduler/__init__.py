"""Experiment files, workloads, placement, supervisors, and what MLflow is told."""
