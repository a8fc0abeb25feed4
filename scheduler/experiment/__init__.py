"""Experiment files and sweeps."""
