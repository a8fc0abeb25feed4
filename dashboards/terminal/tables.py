"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.dashboards.terminal.formatting import SIMULATED, SIMULATED_NOTE, duration
from hypergauge.sql.queries.summaries import Coverage
from hypergauge.sql.runs.highlights import Highlight
from hypergauge.sql.runs.selection import ExperimentInfo, RunInfo

__all__ = ["coverage", "experiments", "highlight_lines", "highlights", "runs", "status", "table"]

_COLORS = {"finished": "green", "failed": "red", "timeout": "red", "stopped": "yellow", "running": "cyan"}


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in our style; a column with a name that begins with ``>`` is right-aligned."""
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for position, column in enumerate(columns):
        # On a narrow terminal the first column, the subject of the line, shrinks last.
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        whole = position == 0 or column == "status"
        # A cell that wraps loses nothing, one that does not shows where it was cut.
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if whole else "fold"
        made.add_column(column.removeprefix(">"), justify=justify, no_wrap=whole, overflow=overflow)
    return made


def status(word: str) -> str:
    """Return a status in its color."""
    color = _COLORS.get(word)
    return f"[{color}]{word}[/]" if color else word


def experiments(found: Sequence[ExperimentInfo], width: int | None = None) -> Table:
    """Return the table of experiments with the numbers of their runs by status; stopped ones if there are any."""
    return fitted(
        [
            Field(">experiment", [str(one.experiment_id) for one in found]),
            Field("name", [escape(one.name) for one in found], wraps=True),
            Field(">workloads", [str(one.workloads) for one in found], 2),
            Field(">runs", [str(one.runs) for one in found]),
            Field(">finished", [str(one.finished) for one in found]),
            Field(">failed", [str(one.failed) for one in found]),
            *[Field(">stopped", [str(one.stopped) for one in found])] * any(one.stopped for one in found),
            Field(">running", [str(one.running) for one in found], 1),
            Field("file", [escape(one.source) for one in found], 3, wraps=True),
        ],
        width,
    )


def runs(found: Sequence[RunInfo], width: int | None = None) -> Table:
    """Return the table of runs with status and duration; with owners if there are several."""
    several = len({run.owner for run in found}) > 1

    def started(run: RunInfo) -> str:
        return run.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if run.started_at else ""

    return fitted(
        [
            Field("run", [run.full_label + SIMULATED * run.simulated for run in found]),
            Field("id", [run.run_id[:8] for run in found], 4),
            Field("name", [escape(run.name) for run in found], wraps=True),
            *[Field("owner", [escape(run.owner) for run in found], 2)] * several,
            Field("status", [status(run.status) for run in found]),
            Field(">duration", [duration(run.duration) for run in found]),
            Field("started", [started(run) for run in found], 3),
            Field(
                "params", [escape(" ".join(f"{key}={value}" for key, value in run.params.items())) for run in found], 1,
                wraps=True,
            ),
            Field("reason", [escape(run.reason or "") for run in found], 0, wraps=True),
            Field("note", [escape((run.note or "").partition("\n")[0]) for run in found], 1, wraps=True),
        ],
        width,
        notes=[SIMULATED_NOTE] * any(run.simulated for run in found),
    )  # fmt: skip


def highlights(run: RunInfo, found: Sequence[Highlight]) -> Table:
    """Return the table of a run's highlights, with times since the start of the run."""
    label = f"{run.label}{SIMULATED * run.simulated} {run.name}".rstrip()
    made = table(">from", ">to", "what", title=escape(f"{label}: {run.status}, {duration(run.duration)}"))
    for start, end, text in highlight_lines(run, found):
        made.add_row(start, end, escape(text))
    if run.simulated:
        made.caption, made.caption_justify = SIMULATED_NOTE, "left"
    return made


def highlight_lines(run: RunInfo, found: Iterable[Highlight]) -> Iterable[tuple[str, str, str]]:
    """Yield the start, end and text of each highlight, with times since the start of the run."""
    for one in found:
        assert run.started_at is not None
        start, end = ((time - run.started_at).total_seconds() for time in (one.started_at, one.ended_at))
        yield (
            ("", "", one.text) if one.kind == "rest" else (duration(start) if start else "0 s", duration(end), one.text)
        )


def coverage(found: Sequence[Coverage], width: int | None = None) -> Table:
    """Return the table of measured quantities."""
    return fitted(
        [
            Field("quantity", [escape(one.quantity) for one in found]),
            Field("unit", [escape(one.unit) for one in found]),
            Field("scope", [one.scopes for one in found], wraps=True),
            Field(">series", [str(one.series) for one in found], 2),
            Field("from", [escape(one.metrics) for one in found], 1, wraps=True),
            Field("meaning", [escape(one.help) for one in found], 0, wraps=True),
        ],
        width,
    )
