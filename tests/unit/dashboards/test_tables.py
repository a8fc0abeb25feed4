"""Formatted values in tables."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hypergauge.dashboards.terminal.formatting import duration, value_text
from hypergauge.dashboards.terminal.tables import coverage
from hypergauge.sql.queries.summaries import Coverage


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0, "0 ms"), (0.036, "36 ms"), (4.24, "4.2 s"), (59.9, "59.9 s"), (187, "3:07"), (7387, "2:03:07")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("peak_memory_bytes", 512.0, "512 B"),
        ("peak_memory_bytes", 300 * 2**20, "300.0 MiB"),
        ("peak_memory_bytes", 3 * 2**40, "3.0 TiB"),
        ("cpu_utilization", 0.876, "0.88 cores"),
        ("gpu_utilization", 0.5, "50%"),
        ("gpu_energy_joules", 12_345.0, "12.3 kJ"),
        ("gpu_energy_joules", 43.2, "43 J"),
        ("accuracy", 0.97333, "0.9733"),
        ("accuracy", None, ""),
    ],
)
def test_values_have_units(key: str, value: float | None, text: str) -> None:
    assert value_text(key, value) == text


def test_what_people_wrote_is_no_markup() -> None:
    found = Coverage("[/red]", "bytes", "host", "[bold]", 1, "")
    console = Console(file=io.StringIO(), width=200)
    console.print(coverage([found]))
    assert "[/red]" in console.file.getvalue()  # type: ignore[attr-defined]
