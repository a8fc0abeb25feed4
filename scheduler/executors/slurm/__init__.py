"""Slurm as an executor: a job is a batch script on one node, and each run a step of it."""

from hypergauge.scheduler.executors.slurm.executor import SlurmExecutor

__all__ = ["SlurmExecutor"]
