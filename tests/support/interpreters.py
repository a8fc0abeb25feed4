"""Interpreters with libraries that are no dependencies of ours."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

__all__ = ["needs", "python_with"]

_LOOK = "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))"


@functools.cache
def python_with(*modules: str) -> str | None:
    """Return an interpreter that has these modules, the one that ``TORCH_PYTHON`` names or this one."""
    for python in (os.environ.get("TORCH_PYTHON", sys.executable), sys.executable):
        if subprocess.run([python, "-c", _LOOK, *modules], check=False, capture_output=True).returncode == 0:
            return python
    return None


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip a test where no interpreter has these modules."""
    reason = f"no Python has {' and '.join(modules)}; name one that has: TORCH_PYTHON=…"
    return pytest.mark.skipif(python_with(*modules) is None, reason=reason)
