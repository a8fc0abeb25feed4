"""The wheel of this checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import HUNG_SECONDS

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel into a folder without a network, and return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=HUNG_SECONDS)
    [wheel] = folder.glob("hypergauge-*.whl")
    return wheel
