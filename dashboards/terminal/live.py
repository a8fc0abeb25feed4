"""Live view of running runs: a table with recent curves, or one line per change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.insight.watch import Level, Watched, WatchedRun

__all__ = ["changes", "curve", "live_table", "summary"]

_BARS = "▁▂▃▄▅▆▇█"
_LEAST_CELLS, _MOST_CELLS = 8, 20
# Title, key of the unit for `formatting.value_text`, and the value of a full bar if it is fixed.
_COLUMNS = {
    "cpu_usage": ("CPU", "cpu_utilization", None),
    "memory_used": ("memory", "_bytes", None),
    "gpu_utilization": ("GPU", "gpu_utilization", 1.0),
    "gpu_power": ("power", "_watts", None),
}
_SHARED = "†"
# Characters between two columns of the table.
_BETWEEN = 3
# Rows of the screen without a run: frame, notes, and the count of omitted runs.
_OTHER_ROWS = 10


def curve(values: Sequence[float | None], cells: int, top: float | None = None) -> str:
    """Return a curve of `cells` characters, from 0 to `top` or the maximum; blank for missing values."""
    top = top or max((value for value in values if value is not None), default=0.0) or 1.0
    marks = []
    for cell in range(cells):
        part = values[len(values) * cell // cells : len(values) * (cell + 1) // cells]
        known = [value for value in part if value is not None]
        share = sum(known) / len(known) / top if known else 0.0
        marks.append(_BARS[min(int(share * len(_BARS)), len(_BARS) - 1)] if known else " ")
    return "".join(marks)


def live_table(seen: Watched, width: int, height: int) -> RenderableType:
    """Return the view as a table that fits on a screen of `width` columns and `height` rows."""
    shown, left_out = _fitting(seen.runs, max((height - _OTHER_ROWS) // 2, 1))
    notes = [Text.from_markup(line) for line in _notes(seen, shown, left_out)]
    return Group(_table(shown, width), *notes) if shown else Group(*notes)


def changes(before: Watched | None, seen: Watched) -> Iterator[str]:
    """Yield a line in rich's markup for each change between two views: states, phases, epochs, rules, problems."""
    known = {one.run.run_id: _state(one) for one in before.runs} if before else {}
    for one in seen.runs:
        if known.get(one.run.run_id) != _state(one):
            progress = f": {escape(_progress(one))}" if _progress(one) else ""
            after = f" after {_time(one)}" if one.run.ended_at else ""
            label = f"{_label(one)} {escape(one.run.name)}"
            yield f"{label} {tables.status(one.run.status)}{after}{progress}"
    if (problem := seen.problem) != (before.problem if before else None):
        yield f"[yellow]![/] {escape(problem)}; retrying" if problem else "the database answers again"
    if seen.awaited != (before.awaited if before else ()):
        yield from (f"waiting for the first run: {escape(why)}" for why in seen.awaited)
    if bool(seen.behind) != bool(before and before.behind):
        yield f"[yellow]![/] {escape(seen.behind)}" if seen.behind else "the replica has caught up"


def summary(seen: Watched) -> str:
    """Return the summary of all ended runs."""
    return f"{_counts(seen.runs)}." if seen.runs else "There was no run."


def _fitting(runs: Sequence[WatchedRun], rows: int) -> tuple[list[WatchedRun], list[WatchedRun]]:
    """Return the visible runs and the omitted ones, in order; ended runs are omitted first, then pending ones."""
    order = {"running": 0, "pending": 1}
    chosen = sorted(runs, key=lambda one: order.get(one.run.status, 2))[:rows]
    ids = {one.run.run_id for one in chosen}
    return (
        [one for one in runs if one.run.run_id in ids],
        [one for one in runs if one.run.run_id not in ids],
    )


def _table(runs: Sequence[WatchedRun], width: int) -> Table:
    quantities = [quantity for quantity in _COLUMNS if any(quantity in one.levels for one in runs)]
    whose = [_two_lines(_label(one), escape(one.run.name)) for one in runs]
    where = [_two_lines(f"{tables.status(one.run.status)} {_time(one)}", escape(_progress(one))) for one in runs]
    cells = _cells(width, whose, where, len(quantities))
    made = tables.table("run", "status", *(f">{_COLUMNS[quantity][0]}" for quantity in quantities))
    for number, column in enumerate(made.columns):
        column.no_wrap = number > 1  # on a narrow screen labels shrink, not values
    made.columns[0].min_width = max(cell_len(_label(one)) for one in runs)
    for one, *words in zip(runs, whose, where, strict=True):
        made.add_row(*words, *(_value(quantity, one.levels.get(quantity), cells) for quantity in quantities))
    return made


def _notes(seen: Watched, shown: Sequence[WatchedRun], left_out: Sequence[WatchedRun]) -> Iterator[str]:
    if any(one.run.simulated for one in shown):
        yield "* on simulated GPUs: their metrics are not real"
    if any(level.scope == "device" for one in shown for level in one.levels.values()):
        yield f"{_SHARED} of the whole GPU, shared with other runs"
    if left_out:
        yield f"… and {_counts(left_out)}"
    if seen.problem:
        yield f"[yellow]![/] {escape(seen.problem)}; retrying; the values are the last known ones"
    elif seen.behind:
        yield f"[yellow]![/] {escape(seen.behind)}"
    if not seen.problem and not seen.runs and not seen.awaited:
        yield "Waiting for the first run."
    yield from (f"Waiting for the first run: {escape(why)}." for why in seen.awaited)
    if not seen.over:
        yield "[dim]Ctrl-C leaves; the runs continue.[/]"


def _counts(runs: Sequence[WatchedRun]) -> str:
    counts = Counter(one.run.status for one in runs)
    return (
        f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}: {', '.join(f'{n} {word}' for word, n in counts.items())}"
    )


def _state(one: WatchedRun) -> tuple[object, ...]:
    at = one.position
    return (one.run.status, at and at.phase, at and at.epoch, one.rules)


def _label(one: WatchedRun) -> str:
    return one.run.full_label + (formatting.SIMULATED if one.run.simulated else "")


def _progress(one: WatchedRun) -> str:
    """Return the position and the firing rules of a run, or the reason of its end."""
    at = one.position
    named = (("", at.phase), ("epoch ", at.epoch), ("step ", at.step)) if at else ()
    parts = [f"{name}{value}" for name, value in named if value is not None]
    return " · ".join([*parts, *(f"! {rule}" for rule in one.rules)]) or one.run.reason or ""


def _time(one: WatchedRun) -> str:
    return formatting.duration(one.run.duration)


def _value(quantity: str, level: Level | None, cells: int) -> Text:
    """Return the current value above its curve, which ends on the right with the newest value."""
    if level is None:
        return Text()
    _, key, top = _COLUMNS[quantity]
    text = formatting.value_text(key, level.value) + (_SHARED if level.scope == "device" else "")
    return Text.assemble(text, "\n", (curve(level.history, cells, top), "cyan"), no_wrap=True)


def _cells(width: int, whose: Sequence[Text], where: Sequence[Text], curves: int) -> int:
    """Return the width of each curve: the space beside the labels, within bounds."""
    words = sum(max(cell_len(line) for text in texts for line in text.plain.split("\n")) for texts in (whose, where))
    left = width - words - _BETWEEN * (2 + curves)
    return min(max(left // max(curves, 1), _LEAST_CELLS), _MOST_CELLS)


def _two_lines(first: str, second: str) -> Text:
    text = Text.from_markup(f"{first}\n{second}", overflow="ellipsis")
    text.no_wrap = True
    return text
