"""Accuracy and cost on a real GPU.

It compares metrics with ``nvidia-smi``'s, tensor activity with known work, and energies of runs with the driver's counter,
and measures the duration of a sample. Without a GPU the result is a message. PyTorch repeatedly multiplies two bfloat16
matrices; without PyTorch, results that need it are left out. The slow-down compares this work with the exporter scraped at
1 Hz (B) and not (A), in order A B B A, so that a drift of the clocks cancels out.
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measurement.energy import energies
from benchmarks.support.stack import cpu_seconds, served
from hypergauge.gpu import inventory, load
from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import GpuSample
from hypergauge.gpu.vendors import NVIDIA

__all__ = ["measure"]

SCRIPT = Path(__file__).parents[1] / "training" / "matmul.py"
SECONDS = 20
BLOCKS = 3
READS = 50
# Dense bfloat16 FLOP/s of the tensor cores, from NVIDIA's data sheets, by a part of the GPU's name.
_PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "A30": 165e12, "L4": 121e12, "RTX 4090": 165e12, "T4": 65e12}
# By our metric: nvidia-smi's name, and factor to our unit. Utilization is comparable under this work alone, which is steady:
# ours is a mean since the last read, nvidia-smi's of 200 ms.
_SMI = {
    "power": ("power.draw.instant", 1.0),
    "temperature": ("temperature.gpu", 1.0),
    "sm_clock": ("clocks.sm", 1e6),
    "memory_clock": ("clocks.mem", 1e6),
    "utilization": ("utilization.gpu", 0.01),
    "memory_used": ("memory.used", 2**20),
}


def measure() -> dict[str, float | str]:
    """Return the results, or a message why nothing was measured."""
    found = inventory()
    if NVIDIA not in found.vendors:
        return {"measured": f"nothing: this host has no GPU ({found.reason})"}
    gpu = found.gpus[0]
    results: dict[str, float | str] = {"measured": gpu.name, "gpus": float(len(found.gpus)), **_cost()}
    if importlib.util.find_spec("torch") is None:
        return {**results, "left_out": "results with work on the GPU: PyTorch is not installed"}
    return {**results, **_under_work(gpu.name), **_slow_down(), **energies(SCRIPT, f"--seconds {SECONDS}")}


def _cost() -> dict[str, float | str]:
    """Return the cost of a sample, in ms and as a share of a core at 1 Hz."""
    reader = GpuReader(load())
    try:
        reader.read()
        walls, began = [], time.process_time()
        for _ in range(READS):
            time.sleep(0.1)
            start = time.perf_counter()
            reader.read()
            walls.append(time.perf_counter() - start)
        spent = (time.process_time() - began) / READS
    finally:
        reader.close()
    return {"read_ms": 1000 * statistics.median(walls), "read_cpu_ms": 1000 * spent, "cpu_share_at_1_hz": spent}


def _under_work(name: str) -> dict[str, float | str]:
    """Return ratios: our metrics over nvidia-smi's, and achieved FLOP/s over those that the tensor activity predicts."""
    reader = GpuReader(load())
    work = _work("--seconds", str(SECONDS))
    ours: list[Mapping[str, float]] = []
    theirs: list[Mapping[str, float]] = []
    try:
        assert work.stdout is not None
        work.stdout.readline()  # warmed up
        reader.read()
        end = time.monotonic() + SECONDS - 3
        while time.monotonic() < end:
            time.sleep(1)
            ours.append(_flat(reader.read().gpus[0]))
            theirs.append(_nvidia_smi())
        achieved = float(json.loads(work.communicate()[0])["flops"])
    finally:
        reader.close()
        work.kill()
        work.wait()
    results: dict[str, float | str] = {"achieved_flops": achieved}
    for key in _SMI:
        pairs = [(a[key], b[key]) for a, b in zip(ours, theirs, strict=True) if key in a and b.get(key)]
        if pairs:
            results[f"{key}_over_nvidia_smi"] = statistics.mean(a for a, _ in pairs) / statistics.mean(
                b for _, b in pairs
            )
    peak = next((flops for word, flops in _PEAKS.items() if word in name), math.nan)
    if active := [one["tensor_active"] for one in ours if "tensor_active" in one]:
        clock = statistics.mean(one["sm_clock"] for one in ours) / max(one["max_sm_clock"] for one in theirs)
        results["tensor_active"] = statistics.mean(active)
        # The data sheet's peak applies at the highest clock.
        results["achieved_over_promised"] = achieved / (peak * clock * statistics.mean(active))
    else:
        results["tensor_active"] = "not supported by this GPU"
    return results


def _flat(sample: GpuSample) -> dict[str, float]:
    return {**sample.metrics, **(sample.devices[0].metrics if sample.devices else {})}


def _nvidia_smi() -> dict[str, float]:
    fields = [*(field for field, _ in _SMI.values()), "clocks.max.sm"]
    words = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split(",")
    scales = {**_SMI, "max_sm_clock": ("clocks.max.sm", 1e6)}
    found = {}
    for (key, (_, scale)), text in zip(scales.items(), output, strict=True):
        try:
            found[key] = float(text) * scale
        except ValueError:  # [N/A]
            continue
    return found


def _slow_down() -> dict[str, float | str]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, served("nvml", Path(folder)) as (process, url):
        work = json.loads(_work("--seconds", "5").communicate()[0].splitlines()[-1])
        products = str(round(work["products"] / work["seconds"] * 10))
        ratios, began, started = [], cpu_seconds(process.pid), time.monotonic()
        for _ in range(BLOCKS):
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for scraped in (False, True, True, False):
                seconds[scraped].append(_worked_seconds(products, url if scraped else None))
            ratios.append(math.log(sum(seconds[True]) / sum(seconds[False])))
        share = (cpu_seconds(process.pid) - began) / (time.monotonic() - started)
    results: dict[str, float | str] = {"slow_down": math.expm1(statistics.mean(ratios))}
    return {**results, "slow_down_spread": max(ratios) - min(ratios), "exporter_cpu_share": share}


def _worked_seconds(products: str, url: str | None) -> float:
    """Return the duration of that many products, while the exporter at `url` is scraped at 1 Hz."""
    ended = threading.Event()

    def scrape() -> None:
        while url is not None and not ended.wait(1):
            with urllib.request.urlopen(url, timeout=10) as answer:
                answer.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        output = _work("--products", products).communicate()[0]
    finally:
        ended.set()
        thread.join()
    return float(json.loads(output.splitlines()[-1])["seconds"])


def _work(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(SCRIPT), *words], stdout=subprocess.PIPE, text=True)
