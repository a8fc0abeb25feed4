"""PyTorch for tests: scripts under an interpreter that has it.

PyTorch is not a dependency of ours: ``TORCH_PYTHON`` names an interpreter with it.
"""

from __future__ import annotations

import os
import sys

import pytest

from hypergauge.scheduler.profilers import PROFILERS

__all__ = ["TORCH_PYTHON", "needs_torch"]

TORCH_PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
needs_torch = pytest.mark.skipif(
    PROFILERS["torch"].problem(TORCH_PYTHON) is not None,
    reason=f"{TORCH_PYTHON} has no PyTorch; name one that has: TORCH_PYTHON=…",
)
