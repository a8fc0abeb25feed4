"""Evidence of firings as text."""

from __future__ import annotations

from typing import Any

import pytest

from hypergauge.core.evidence import evidence_text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({}, ""),
        ({"share": 0.97123, "cores": 1.94}, "share 0.971, cores 1.94"),
        ({"loss": 2.454, "step": 15000, "seconds": 1900.4}, "loss 2.45, step 15000, seconds 1900"),
        ({"memory": "GPU 0", "used_bytes": 78 * 2**30, "there_bytes": None}, "memory GPU 0, used bytes 78.0 GiB"),
        ({"tensors": ["a", "b"], "count": 2}, "tensors a and b, count 2"),
        ({"neighbours": ["20/2/1 train"]}, "neighbours 20/2/1 train"),
        ({"devices": ["0, 1"], "utilization": {"GPU 0": 0.9, "GPU 1": 0.1}}, "devices 0, 1, utilization GPU 0 0.9 and GPU 1 0.1"),
        ({"device": ["GPU 0", "GPU 1"], "utilization": 0}, "device GPU 0 and GPU 1, utilization 0"),
        (
            {"device": ["GPU 0", "GPU 1"], "what": "low", "p95": [0.3, None]},
            "what low, (device GPU 0, p95 0.3) and (device GPU 1)",
        ),
        (
            {"count": [2, 4], "share": [1, None], "tensors": [["a", "b"], None], "step": 3},
            "step 3, (count 2, share 1, tensors a and b) and (count 4)",
        ),
        ({"pid": list(range(8)), "ranks": 8}, "pid 0 and 1 and 2 and 3 and 4 and 3 more, ranks 8"),
    ],
)  # fmt: skip
def test_evidence_is_a_phrase(content: dict[str, Any], text: str) -> None:
    assert evidence_text(content) == text
