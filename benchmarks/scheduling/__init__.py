"""Benchmarks of the scheduler, its commands and spans."""
