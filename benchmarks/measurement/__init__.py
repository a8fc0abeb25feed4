"""Benchmarks of exporters and collector: cost, limits and accuracy."""
