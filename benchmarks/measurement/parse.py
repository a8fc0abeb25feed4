"""Parser of responses, against the reference parser of `prometheus_client`."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates

__all__ = ["exposition", "measure"]

GPUS, INSTANCES, METRICS = 8, 7, 20
SERIES = GPUS * INSTANCES * METRICS


def exposition(seed: int) -> bytes:
    """Return an exposition of 1,120 series with eight labels, as of a dcgm-exporter of 8 GPUs with 7 instances each."""
    results = random.Random(seed)
    lines = []
    for metric in range(METRICS):
        lines.append(f"# TYPE DCGM_FI_PROF_METRIC_{metric} gauge")
        for gpu in range(GPUS):
            for instance in range(INSTANCES):
                labels = (
                    f'gpu="{gpu}",UUID="GPU-{gpu:08}-0000-0000-0000-000000000000",pci_bus_id="00000000:{gpu:02}:00.0",'
                    f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="1g.10gb",'
                    f'GPU_I_ID="{instance + 7}",Hostname="node1"'
                )
                lines.append(f"DCGM_FI_PROF_METRIC_{metric}{{{labels}}} {results.random():.6f}")
    return "\n".join([*lines, ""]).encode()


def measure() -> dict[str, float | str]:
    """Return samples per second of both parsers, and the ratio of their medians; values change from scrape to scrape."""
    expositions = [exposition(seed) for seed in range(20)]
    parser, rates = Parser(), Rates(1.0)
    clock = iter(range(1_000_000))

    def ours(text: bytes) -> None:
        rates.samples(parser.parse(text), float(next(clock)))

    ours(expositions[0])  # fills the cache of series
    mine = _median(ours, expositions * 5)
    reference = _median(
        lambda text: [list(f.samples) for f in text_string_to_metric_families(text.decode())], expositions[:5]
    )
    return {
        "series": SERIES,
        "samples_per_second": SERIES / mine,
        "reference_samples_per_second": SERIES / reference,
        "ratio": reference / mine,
    }


def _median(work: Callable[[bytes], object], expositions: list[bytes]) -> float:
    seconds = []
    for text in expositions:
        began = time.perf_counter()
        work(text)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
