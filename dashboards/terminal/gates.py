"""Verdicts of a regression gate, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from hypergauge.dashboards.terminal import formatting
from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.insight.comparison.verdicts import Gate, Group, Verdict, interval

__all__ = ["lines", "table"]

_MARKS = {"passed": "[green]✓[/]", "failed": "[red]✗[/]", "undecided": "[yellow]?[/]"}
# Titles with their ranks, see `Field`.
_COLUMNS = (
    ("fail on", None), ("row", None), ("against", None), (">is", 0), (">was", 1), (">change", 2), (">{} interval", 3),
    (">effect", 5), (">p", 4), (">power", 6),
)  # fmt: skip
_SUFFIXES = {
    "bytes": "_bytes",
    "watts": "_watts",
    "joules": "_joules",
    "cores": "cpu_utilization",
    "ratio": "gpu_utilization",
}


def table(gate: Gate, width: int | None = None) -> Table:
    """Return the table of the values behind the verdicts, of at most `width` characters if that is possible."""
    lines = []
    for one in gate.verdicts:
        found = one.statistics
        measured = (
            (
                f"{found.change:+.1%}",
                f"{found.low:+.1%} to {found.high:+.1%}",
                "" if found.effect is None else f"{found.effect:+.1f} sd",
                f"{found.p_adjusted:.2g}",
                f"{found.power:.0%} for {found.visible:+.1%}",
            )
            if found
            else ("",) * 5
        )
        lines.append((
            f"{_MARKS[one.outcome]} {escape(one.condition)}", one.new.row, one.old.row if one.old else "",
            _attempts(one, one.new), _attempts(one, one.old) if one.old else "", *measured,
        ))  # fmt: skip
    columns = zip(*lines, strict=True) if lines else ((),) * len(_COLUMNS)
    return fitted(
        (
            Field(title.format(interval(gate.alpha)), list(cells), rank, wraps=rank is None)
            for (title, rank), cells in zip(_COLUMNS, columns, strict=True)
        ),
        width,
    )


def lines(gate: Gate) -> Iterator[str]:
    """Yield the texts of the verdicts, the notes, and the method of the tests."""
    for one in gate.verdicts:
        yield f"{_MARKS[one.outcome]} {escape(one.text)}"
    for note in gate.notes:
        yield f"[yellow]![/] {escape(note)}"
    for sentence in gate.method:
        yield f"[dim]{escape(sentence)}[/]"


def _attempts(verdict: Verdict, group: Group) -> str:
    if group.mean is None:
        return ""
    deviation = "" if group.deviation is None else f" ± {_value(verdict, group.deviation)}"
    return f"{_value(verdict, group.mean)}{deviation} ({len(group.values)})"


def _value(verdict: Verdict, value: float) -> str:
    """Return a value with its unit; times have four digits, so that a change of one percent is visible."""
    if verdict.unit == "seconds":
        return f"{value * 1000:.4g} ms" if value < 1 else f"{value:.4g} s"
    if verdict.unit in _SUFFIXES:
        return formatting.value_text(_SUFFIXES[verdict.unit], value)
    return f"{value:.4g} {verdict.unit}".rstrip()
