"""Executor over a batch system: a workload is one job, submitted, monitored and attached to again."""
