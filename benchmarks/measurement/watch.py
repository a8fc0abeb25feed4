"""Cost of watching a model, which is switched on and off for each period of a PyTorch training."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measurement.estimate import ratio, trimmed
from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.launch.launch import client_folder, run_environment

__all__ = ["measure"]

_SCRIPT = Path(__file__).parents[1] / "training/watched.py"
_MODELS = ("dense", "convolutional", "transformer")
# Steps from one watched step to the next, as by default; a period has as many steps.
EVERY = 100
# The C library gives freed memory back to the kernel and takes it again, in each step or in none, as the heap happens to lie.
# That changes a step of a small model by a fifth, with or without a watch, so it is switched off.
_ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


def measure(minutes: float = 5.0, seed: int = 1) -> dict[str, float | str]:
    """Return the slow-down and the additional CPU time of a watched training, and the slow-down of typical steps.

    Each is a relative change with a 95 % interval.

    ``TORCH_PYTHON`` names the interpreter with PyTorch; by default it is this one.

    Parameters
    ----------
    minutes
        Time for all models together.
    """
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        raise BadRequest(f"{python} has no PyTorch; name an interpreter that has: TORCH_PYTHON=…")
    results: dict[str, float | str] = {"every": float(EVERY)}
    for model in _MODELS:
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = Path(name)
            files = {"BENCH_SPANS": str(folder / "spans.jsonl"), "BENCH_TENSORS": str(folder / "tensors.jsonl")}
            environment = run_environment(os.environ, {**files, **_ALLOCATOR}, client_folder(folder))
            words = [python, str(_SCRIPT), model, str(60 * minutes / len(_MODELS)), str(EVERY), str(seed)]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            written = Path(files["BENCH_TENSORS"]).stat().st_size
        for position, kind in enumerate(("slow_down", "cpu", "typical")):
            contrasts = [math.log(pair["on"][position] / pair["off"][position]) for pair in found["pairs"]]
            estimate = ratio(trimmed(contrasts))
            results |= {
                f"{model}_{kind}": estimate.value,
                f"{model}_{kind}_low": estimate.low,
                f"{model}_{kind}_high": estimate.high,
            }
        pairs = len(found["pairs"])
        off = [pair["off"][0] / EVERY for pair in found["pairs"]]
        results |= {
            f"{model}_parameters": float(found["parameters"]),
            f"{model}_steps": float(2 * EVERY * pairs),
            f"{model}_step_seconds": sorted(off)[len(off) // 2],
            f"{model}_bytes_per_watched_step": written / pairs,
        }
    return results
