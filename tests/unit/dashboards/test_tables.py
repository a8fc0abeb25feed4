"""Formatted values in tables."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from hypergauge.dashboards.terminal.fitting import Field, fitted
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


def printed(made: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(made)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


FIELDS = (
    Field("run", ["20/1/1", "20/1/2"]),
    Field("id", ["e18ea1f5", "045ea04b"], 2),
    Field(">time on the GPU", ["9:00", "12:30"]),
    Field("empty", ["", ""], 1),
    Field("reason", ["", "[bold]the kernel ended it: out of memory[/]"], 0, wraps=True),
)


@pytest.mark.parametrize(
    ("width", "hidden"), [(80, ()), (60, ()), (47, ("id",)), (44, ("id",)), (30, ("reason", "id")), (10, ("reason", "id"))]
)  # fmt: skip
def test_a_narrow_table_wraps_texts_and_names_what_it_hides(width: int, hidden: tuple[str, ...]) -> None:
    made = fitted(FIELDS, width, further="more")
    lines = printed(made, width)
    assert "…" not in "".join(lines)
    assert "empty" not in "".join(lines)
    assert made.caption == (f"Hidden: {', '.join(hidden)}. more" if hidden else None)
    shown = [one.header for one in made.columns]
    assert shown == [name for name in ("run", "id", "time on the GPU", "reason") if name not in hidden]
    if width >= 30:
        words = " ".join("".join(lines).replace(str(made.caption or ""), "").split())
        assert all(word in words for word in ("20/1/1", "9:00", "12:30"))
        assert ("memory" in words) == ("reason" not in hidden)


def test_a_table_that_fits_has_its_natural_width() -> None:
    assert {len(line) for line in printed(fitted(FIELDS), 200)} == {len(printed(fitted(FIELDS, 200), 200)[1])}


def test_a_text_that_nobody_reads_to_its_end_is_cut() -> None:
    """A prompt of 200,000 characters in a parameter took 2,000 lines."""
    fields = [Field("run", ["1/1/1"]), Field("params", [f"[red]{'x' * 200_000}[/]"], wraps=True)]
    with (console := Console(width=120, file=io.StringIO())).capture() as capture:
        console.print(fitted(fields, 120))
    lines = capture.get().splitlines()
    assert len(lines) < 10
    assert "x…" in capture.get()
