"""Executors of workloads, on this host and on others."""
