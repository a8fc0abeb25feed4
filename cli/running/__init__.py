"""Commands that run workloads."""
