"""Experiment files, workloads, placement, supervisors, and what MLflow is told."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
