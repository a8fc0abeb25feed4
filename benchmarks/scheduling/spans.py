"""Cost of a span: an empty step, in a run and outside."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from hypergauge.client.track import Track

__all__ = ["measure"]

SPANS = 20_000
ROUNDS = 10


def measure() -> dict[str, float | str]:
    """Return CPU microseconds per span, in a run and outside; the minimum of some rounds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        inside = _microseconds(Track(str(Path(folder) / "spans.jsonl")))
    return {"span_microseconds": inside, "outside_microseconds": _microseconds(Track(None))}


def _microseconds(track: Track) -> float:
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for number in range(SPANS):
            with track.step(number):
                pass
        found.append((time.process_time() - began) / SPANS * 1e6)
    return min(found)
