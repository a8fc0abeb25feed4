"""Captured reports of profilers: PyTorch 2.11 with CUDA 13.0 and Nsight Compute 2025.3 of an H200, and py-spy 0.4.3."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDED", "RAW_PAGE", "TRACE"]

_DATA = Path(__file__).parents[1] / "data" / "profiles"
# Of a convolutional network.
TRACE, RAW_PAGE, FOLDED = _DATA / "torch_h200.json.gz", _DATA / "ncu_h200.csv.gz", _DATA / "py_spy.txt"
