"""Defaults of the built-in rules against the published ones, and the example of the page on rules."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.rules import words
from hypergauge.insight import rules
from hypergauge.insight.rules import PRESETS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"

# By rule, the default in AWS's documentation and then a different one in its SDK; AWS calls `warm_up` patience; at 0.5 s per point.
PUBLISHED = {
    "BatchSize": {
        "cpu_threshold_p95": "0.7", "gpu_threshold_p95": "0.7", "gpu_memory_threshold_p95": "0.7", "warm_up": "50 s 500 s",
        "window": "250 s",
    },
    "CPUBottleneck": {"threshold": "0.5", "gpu_threshold": "0.1", "cpu_threshold": "0.9", "warm_up": "50 s 500 s"},
    "IOBottleneck": {"threshold": "0.5", "gpu_threshold": "0.7 0.1", "io_threshold": "0.5", "warm_up": "500 s"},
    "LowGPUUtilization": {"threshold_p95": "0.7", "threshold_p5": "0.1", "window": "250 s", "warm_up": "500 s"},
    "GPUMemoryIncrease": {"increase": "0.1 0.05", "warm_up": "50 s 500 s", "window": "250 s 5 s"},
    "LoadBalancing": {"threshold": "0.5", "warm_up": "5 s 500 s"},
    "StepOutlier": {"stddev": "5 3", "n_outliers": "10"},
    "MaxInitializationTime": {"threshold": "20 min"},
    "Dataloader": {"min_threshold": "0.7", "max_threshold": "2"},
}  # fmt: skip


def test_both_presets_are_what_was_published() -> None:
    known = rules.load()
    for name, published in PUBLISHED.items():
        documented, other = (known[name].values(preset) for preset in PRESETS)
        for parameter, text in published.items():
            expected = " ".join(dict.fromkeys([words(documented[parameter]), words(other[parameter])]))
            assert expected == text, (name, parameter)


def test_the_example_on_the_page_is_a_rule(tmp_path: Path) -> None:
    [example] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "example.sql").write_text(example)
    assert rules.read(tmp_path / "example.sql").name == "SwapInUse"
