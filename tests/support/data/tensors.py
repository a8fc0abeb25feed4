"""Reductions of tensors of a small training."""

from __future__ import annotations

import numpy as np

from hypergauge.sql.ingest.tensors import TensorSet, TensorStep


def some_tensors(start: float) -> tuple[list[TensorSet], list[TensorStep]]:
    """Return two sets and three steps of each: values that are null, alike, tiny and huge, and sizes that differ."""
    sets = [
        TensorSet("1a-0", "weights", ["fc1.weight", "fc2 \\ü\t'\"{}"], [784 * 128, 10]),
        TensorSet("1a-1", "losses", ["loss"], [1]),
    ]
    steps = []
    for number in range(3):
        columns = {"min": [-number, 1e-38], "l2": [0.1 * number, 3e38], "zeros": [0, 0], "p50": [np.nan, np.nan]}
        columns["max"] = [np.nan, np.inf] if number else [1, 2]
        arrays = {name: np.array(values, np.float32) for name, values in columns.items()}
        steps.append(TensorStep("1a-0", number, start + number, 17, None, arrays))
        loss = {"mean": np.array([1 / (number + 1)], np.float32)}
        steps.append(TensorStep("1a-1", number, start + number + 0.25, None, [5 + number], loss))
    return sets, steps
