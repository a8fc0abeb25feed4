"""The scheduler: experiment files, workloads, devices, supervisors, MLflow."""
