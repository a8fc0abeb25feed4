"""Table of published and measured values, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from examples.papers.paper import Comparison, Paper, Published
from examples.papers.results import Measured, Results
from examples.papers.rows import Selection
from hypergauge.core.terminal import Terminal

__all__ = ["show"]

_WIDTH = 80
_PERCENT = ("epoch_time", "cpu_utilization")


def show(paper: Paper, results: Results, selection: Selection, *, has_gpu: bool, small: bool) -> None:
    """Print the values that either side has, and what did not run here."""
    out = Terminal(width=_WIDTH)
    table = Table(title=escape(paper.title), title_justify="left", box=None, padding=(0, 1, 0, 0), expand=False)
    for name in ("configuration", "metric"):
        table.add_column(name)
    for name in ("theirs", "ours (interval)"):
        table.add_column(name, justify="right", no_wrap=True)
    lacking = 0
    for one in paper.comparisons:
        theirs, ours = paper.published.get((one.configuration, one.metric)), results.of(one)
        if theirs is None and ours is None:
            lacking += 1
        else:
            table.add_row(escape(one.configuration), one.metric, _theirs(theirs), _ours(one, ours))
    out.print(table)
    out.print()
    out.print("A dash: we could read no published value, or measured none here.")
    out.print(f"Theirs: {escape(paper.hardware)}.")
    if has_gpu:
        out.print(f"Ours: a GPU of this host, {'small models' if small else 'models of their size'}, random images.")
    else:
        out.print(f"Ours: this host, without a GPU. {escape(paper.differs)}")
    if selection.excluded:
        out.print("Cannot run here:")
    for (sharing, reason), workloads in selection.excluded.items():
        many = "s" if len(workloads) > 1 else ""
        out.print(f"- {sharing}workload{many} {_ranges(workloads)}: {escape(reason)}")
    if lacking:
        out.print(f"{lacking} comparisons have no value on either side.")


def _theirs(found: Published | None) -> str:
    return "-" if found is None else escape(f"{found.value}{'' if found.unit == '%' else ' '}{found.unit}")


def _ours(comparison: Comparison, found: Measured | None) -> str:
    if found is None:
        return "-"
    if comparison.metric in _PERCENT:
        text, ends = f"{found.value - 1:+.1%}", [f"{end - 1:+.0%}" for end in (found.low, found.high) if end]
    else:
        text, ends = f"{found.value:.2f}x", [f"{end:.2f}" for end in (found.low, found.high) if end]
    return f"{text} ({' to '.join(ends)})" if len(ends) == 2 else f"{text} ({found.note})" if found.note else text


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers with runs of them joined: ``2-4, 6``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)
