"""Tables of a report. Values common to all lines are shown once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.dashboards.terminal.comparison_sheet import Sheet
from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.insight.report import Report
from hypergauge.sql.queries.report import Quality

__all__ = ["Column", "Table", "Value", "comparison", "qualities", "runs", "table"]

# In a table of fewer lines, a column with one value is no repetition.
_LONG = 4


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table, of numbers or of texts."""

    title: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """Cell with its CSS class and a small addition, such as a change against the baseline."""

    text: str
    look: str = ""
    small: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Table without the columns that have one value; `common` names them: ``host: node1; sharing: none``."""

    columns: tuple[Column, ...]
    lines: tuple[tuple[str, tuple[Value, ...]], ...]
    common: str


def table(columns: Sequence[Column], lines: Sequence[tuple[str, Sequence[Value]]]) -> Table:
    """Return a table of lines, each with its head and a value per column.

    Empty columns are left out, and in long tables also those in which all lines have one value.
    """
    distinct = [{line[at] for _, line in lines} for at in range(len(columns))]
    long = len(lines) >= _LONG
    kept = [at for at, some in enumerate(distinct) if len(some) > 1 or (not long and any(one.text for one in some))]
    same = [at for at, some in enumerate(distinct) if long and len(some) == 1 and next(iter(some)).text]
    common = "; ".join(f"{columns[at].title}: {next(iter(distinct[at])).text}" for at in same)
    rows = tuple((head, tuple(line[at] for at in kept)) for head, line in lines)
    return Table(tuple(columns[at] for at in kept), rows, common)


def comparison(sheet: Sheet) -> Table:
    """Return the table of a comparison."""
    columns = [Column("name"), Column("status"), *(Column(one.title, number=True) for one in sheet.columns)]
    lines = [
        (
            label,
            [
                Value(name),
                Value(status, f"status {status}"),
                *(Value(cell.text, small=f"({cell.change})" if cell.change else "") for cell in cells),
            ],
        )
        for label, name, status, cells in sheet.lines
    ]
    return table(columns, lines)


def runs(found: Report, labels: Mapping[str, str], devices: Mapping[str, str]) -> Table:
    """Return the table of runs, with a column for each parameter."""
    names = list(dict.fromkeys(name for run in found.runs for name in run.params))
    columns = [
        Column("name"), Column("status"), Column("duration", number=True), Column("started"), Column("host"),
        Column("devices"), Column("sharing"), Column("environment"), *map(Column, names),
    ]  # fmt: skip
    lines = [
        (
            labels[run.run_id],
            [
                Value(run.name),
                Value(run.status, f"status {run.status}"),
                Value(duration(run.duration) if run.started_at else ""),
                Value(run.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if run.started_at else ""),
                Value(run.host),
                Value(devices.get(run.run_id, "none")),
                Value("none" if run.collocation == "-" else run.collocation),
                Value("current interpreter" if run.environment == "-" else run.environment),
                *(Value(str(run.params.get(name, ""))) for name in names),
            ],
        )
        for run in found.runs
    ]
    return table(columns, lines)


def qualities(found: Report, titles: Mapping[str, str]) -> Table:
    """Return the table of the quality of each run's measurements."""
    columns = [
        Column("measured", number=True), Column("interval", number=True), Column("exporters"), Column("overhead", number=True),
        Column("other programs"), Column("GPUs"), Column("throttled"), Column("profiled"), Column("shared"),
    ]  # fmt: skip
    lines = [
        (
            titles[run.run_id],
            [
                _coverage(one.coverage),
                Value(duration(one.interval_seconds)),
                Value(", ".join(_exporters(one)) or "none"),
                Value(
                    _overhead(one.overhead), "low" if one.overhead is not None and round(one.overhead, 3) > 0.01 else ""
                ),
                _other_programs(one),
                Value("simulated" if one.simulated else "real" if found.devices.get(run.run_id) else "none"),
                Value("" if one.throttled is None else "yes" if one.throttled else "no"),
                Value(run.profilers.replace("+", " and ") or "no"),
                Value("yes" if one.shared else "no"),
            ],
        )
        for run in found.runs
        if (one := found.qualities.get(run.run_id)) is not None
    ]
    return table(columns, lines)


def _coverage(share: float | None) -> Value:
    return Value("") if share is None else Value(f"{share:.0%}", "low" if share < 0.9 else "")


def _other_programs(one: Quality) -> Value:
    if one.other_cores is None or one.cores is None:
        return Value("")
    services = "" if one.service_cores is None else f", services of hypergauge {one.service_cores:.1f}"
    return Value(f"{one.other_cores:.1f} of {one.cores:.3g} cores{services}", "low" if one.disturbed else "")


def _exporters(one: Quality) -> list[str]:
    """Return the exporters, with their intervals if these differ."""
    every = {name: f" every {duration(seconds)}" for name, seconds in one.differing_intervals.items()}
    return [name + every.get(name, "") for name in one.listeners]


def _overhead(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
