"""Table of a comparison in terminals of several widths, and as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from hypergauge.dashboards.terminal.comparison_sheet import Cell, Heading, Sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table, markdown

TITLES = ("duration", "GPU energy", "SM active", "loss", "CPU time", "read")


def sheet(runs: int, *, changes: bool = False, hidden: Sequence[str] = ()) -> Sheet:
    """Return a comparison of runs with six columns, the most important first."""
    columns = tuple(Heading(title, title, rank) for rank, title in enumerate(TITLES))
    cells = tuple(Cell(f"{at}.5 units", "+12%" if changes else "") for at in range(len(TITLES)))
    lines = tuple((f"20/1/{at}", f"run-{at}", "finished", cells) for at in range(1, runs + 1))
    return Sheet("run", columns, lines, ("* a note",), tuple(hidden))


def drawn(read: Sheet, width: int | None, *, hide: bool = True) -> list[str]:
    """Return the lines of a table as printed at a terminal of this width."""
    console = Console(file=io.StringIO(), width=width or 1000)
    console.print(comparison_table(read, width, hide=hide))
    return [line.rstrip() for line in str(console.file.getvalue()).splitlines() if line.strip()]  # type: ignore[attr-defined]


def columns_of(lines: Sequence[str]) -> list[str]:
    """Return the titles in the heading of a table."""
    return [title for title in TITLES if title in lines[0]]


@pytest.mark.parametrize("runs", [1, 8, 40])
@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("changes", [False, True])
def test_a_table_fits_its_terminal_and_names_what_is_hidden(runs: int, width: int, changes: bool) -> None:
    lines = drawn(sheet(runs, changes=changes), width)
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    text = "\n".join(lines)
    hidden = text.partition("Hidden: ")[2].partition(". --wide")[0]
    for title in TITLES:
        assert (title in hidden.replace("\n", " ")) != (title in text.partition("Hidden: ")[0])
    assert sum("20/1/" in line for line in lines) in (1, runs), "no line is broken"


def test_the_least_important_columns_are_hidden_first() -> None:
    shown = [columns_of(drawn(sheet(40), width)) for width in (200, 90, 70, 50, 40)]
    assert shown == [list(TITLES), *(list(TITLES[:count]) for count in (5, 3, 1, 1))]


def test_few_runs_become_columns_of_a_narrow_table() -> None:
    lines = drawn(sheet(3), 80)
    assert all(label in lines[0] for label in ("20/1/1", "20/1/2", "20/1/3"))
    assert [line.split("  ")[0].strip() for line in lines[2:-1]] == ["name", "status", *TITLES]
    beside = drawn(sheet(3, changes=True), 72)
    below = drawn(sheet(4, changes=True), 72)
    assert any("0.5 units (+12%)" in line for line in beside)
    assert not any("0.5 units (+12%)" in line for line in below)
    assert sum("(+12%)" in line for line in below) == len(TITLES)


def test_nothing_is_hidden_without_a_width_and_of_what_was_chosen() -> None:
    assert columns_of(drawn(sheet(40), None)) == list(TITLES)
    assert not any("Hidden" in line for line in drawn(sheet(40), 80, hide=False))
    assert any("Hidden: one, two. --wide" in line for line in drawn(sheet(40, hidden=["one", "two"]), None))


def test_markdown_has_all_columns_and_no_markup_of_others() -> None:
    read = Sheet(
        "run", (Heading("a|b", "a|b"),), (("20/1/1 *", "x|y", "finished", (Cell("1", "+2%"),)),), ("* simulated",)
    )
    assert markdown(read).splitlines() == [
        "| run | name | status | a\\|b |",
        "| --- | --- | --- | ---: |",
        "| 20/1/1 \\* | x\\|y | finished | 1 (+2%) |",
        "",
        "- \\* simulated",
    ]
