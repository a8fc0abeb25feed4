"""Benchmarks: ratios from one run on one machine, ``python -m benchmarks NAME --json``. No test depends on them."""
