"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

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
        made.add_column(column.removeprefix(">"), justify=justify, no_wrap=position == 0 or column == "status")
    return made


def status(word: str) -> str:
    """Return a status in its color."""
    color = _COLORS.get(word)
    return f"[{color}]{word}[/]" if color else word


def experiments(found: Iterable[ExperimentInfo]) -> Table:
    """Return the table of experiments with the numbers of their runs by status."""
    made = table(">experiment", "name", ">workloads", ">runs", ">finished", ">failed", ">running", "file")
    for one in found:
        counts = (one.workloads, one.runs, one.finished, one.failed, one.running)
        made.add_row(str(one.experiment_id), escape(one.name), *map(str, counts), escape(one.source))
    return made


def runs(found: Sequence[RunInfo]) -> Table:
    """Return the table of runs with status and duration; with owners if there are several."""
    several = len({run.owner for run in found}) > 1
    noted = any(run.note for run in found)
    made = table(
        "run",
        "id",
        "name",
        *["owner"] * several,
        "status",
        ">duration",
        "started",
        "params",
        "reason",
        *["note"] * noted,
    )
    for run in found:
        label = run.full_label + (SIMULATED if run.simulated else "")
        started = run.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if run.started_at else ""
        params = " ".join(f"{key}={value}" for key, value in run.params.items())
        made.add_row(
            label, run.run_id[:8], escape(run.name), *[escape(run.owner)] * several, status(run.status),
            duration(run.duration), started, escape(params), escape(run.reason or ""),
            *[escape((run.note or "").partition("\n")[0])] * noted,
        )  # fmt: skip
    if any(run.simulated for run in found):
        made.caption, made.caption_justify = SIMULATED_NOTE, "left"
    return made


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


def coverage(found: Iterable[Coverage]) -> Table:
    """Return the table of measured quantities."""
    made = table("quantity", "unit", "scope", ">series", "from", "meaning")
    for one in found:
        made.add_row(
            escape(one.quantity), escape(one.unit), one.scopes, str(one.series), escape(one.metrics), escape(one.help)
        )
    return made
