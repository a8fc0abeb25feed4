"""Trainings that benchmarks measure."""
