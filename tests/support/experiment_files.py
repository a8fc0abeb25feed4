"""Experiment files that a test writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["EXPORTERS", "HEADER", "WriteCsv"]

HEADER = "Experiment,Workload,Status,Run,Devices,Collocation,Environment,File,Listeners,Params\n"
# Exporters of a host, with what is wrong with each.
EXPORTERS = {"host": None, "process": None, "nvml": "Driver Not Loaded", "weather": None}

WriteCsv = Callable[[str | bytes], Path]
