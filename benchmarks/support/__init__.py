"""Servers, exporters and recorded or generated samples that benchmarks share."""
