"""Tables and heat maps of interference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from hypergauge.dashboards.shades import INK, shade
from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.dashboards.terminal.formatting import SIMULATED, duration, value_text
from hypergauge.dashboards.terminal.notes import shortened
from hypergauge.dashboards.terminal.tables import table
from hypergauge.insight.sharing.interference import Against, Interference, Member, Set
from hypergauge.insight.sharing.ratio import CONFIDENCE, Ratio

__all__ = ["Cell", "Grid", "Sheet", "grids", "heatmap", "notes", "outcomes", "slowdowns", "tables_of"]

_PROFILED = " ◆"
_TOGETHER, _DILUTED, _DISTURBED = "†", "‡", "?"
_INTERVAL = f"{CONFIDENCE:.0%} interval"
# Columns that a narrow terminal leaves out, the least important with the highest rank, and those that wrap.
_RANKS = {
    ">CPU time": 2,
    "sharing": 3,
    "workload": 4,
    ">repetitions": 2,
    ">throughput": 5,
    f">{_INTERVAL}": 1,
    ">on its instance": 6,
}
_WRAPS = ("configuration", "beside", "set", "workload", ">throughput", ">repetitions")


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a cell with its colors, such as the slowdown ``1.32x`` with its interval."""

    text: str
    interval: str = ""
    color: str = ""
    ink: str = INK


@dataclass(frozen=True, slots=True)
class Grid:
    """Heat map of one way of sharing: slowdowns of configurations (rows) beside others (columns)."""

    sharing: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[int, int], Cell]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Table; columns with a name that begins with ``>`` hold numbers."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]


def grids(found: Interference) -> tuple[Grid, ...]:
    """Return a heat map for each way of sharing with a known slowdown."""
    ways: dict[str, dict[tuple[str, str], Cell]] = {}
    for one in found.sets:
        for member in one.members:
            if member.slowdown is not None:
                ways.setdefault(one.sharing, {})[member.name, one.beside(member)] = _slowdown(one, member)
    made = []
    for sharing, cells in ways.items():
        rows = tuple(dict.fromkeys(row for row, _ in cells))
        beside = dict.fromkeys(column for _, column in cells)
        # In the order of the rows, so that each configuration beside itself is on the diagonal.
        columns = (*(row for row in rows if row in beside), *(name for name in beside if name not in rows))
        placed = {(rows.index(row), columns.index(column)): cell for (row, column), cell in cells.items()}
        made.append(Grid(sharing, rows, columns, placed))
    return tuple(made)


def slowdowns(found: Interference) -> Sheet:
    """Return the table of each configuration's slowdown in each set."""
    what = {"duration": "", "step_time": " a step", "epoch_time": " an epoch"}[found.metric]
    instances = any(member.on_instance for one in found.sets for member in one.members)
    columns = ("configuration", "beside", "sharing", ">repetitions", f">alone{what}", f">beside others{what}",
               ">slowdown", f">{_INTERVAL}", ">CPU time", *[">on its instance"] * instances)  # fmt: skip
    lines = []
    for one in found.sets:
        for member in one.members:
            slow, own = member.slowdown, member.on_instance
            alone = f" + {len(slow.alone.runs)} alone" if slow else ""
            line = [
                Cell(member.name + _marks([member])),
                Cell(shortened(one.beside(member))),
                Cell(one.sharing),
                Cell(f"{one.repetitions}{alone}"),
                Cell(duration(slow.alone_seconds) if slow else "other work" if member.other_work else "never"),
                Cell(duration(slow.seconds) if slow else ""),
                _slowdown(one, member),
                Cell(_interval(slow.ratio) if slow else ""),
                Cell(f"{slow.cpu.value:.2f}x" if slow and slow.cpu else ""),
                *[Cell(f"{own.ratio.value:.2f}x" if own else "")] * instances,
            ]
            lines.append(tuple(line))
    return _sheet("Slowdowns by sharing", columns, lines)


def outcomes(found: Interference) -> Sheet:
    """Return the table of each set's makespan, throughput and energy against its runs one after the other."""
    columns = ("set", "sharing", "workload", ">makespan", ">one after the other", ">change", f">{_INTERVAL}",
               ">throughput", ">energy of GPUs")  # fmt: skip
    lines = [
        tuple(map(Cell, (
            shortened(one.name) + _marks(one.members), one.sharing, ", ".join(one.workloads), duration(one.makespan.together), duration(one.makespan.one_by_one),
            f"{one.makespan.ratio.value - 1:+.0%}" + _DISTURBED * (one.verdict == "disturbed"), _change(one.makespan.ratio), _throughput(one), _energy(one.energy),
        )))
        for one in found.sets if one.makespan is not None
    ]  # fmt: skip
    return _sheet("Collocated runs against the same runs in sequence", columns, lines)


def notes(found: Interference) -> Iterator[str]:
    """Yield the meanings of the marks in the tables."""
    members = [member for one in found.sets for member in one.members]
    if any(member.slowdown and member.over == "together" for member in members):
        yield f"{_TOGETHER} over the work done while all runs were running"
    if any(member.slowdown and member.diluted for member in members):
        yield f"{_DILUTED} over the whole run, with fewer neighbours at times: too small"
    if any(one.verdict == "disturbed" for one in found.sets):
        yield f"{_DISTURBED} other programs may explain it, see the notices"
    if any(member.simulated for member in members):
        yield f"{SIMULATED.strip()} on simulated GPUs"
    if any(member.profiled for member in members):
        yield f"{_PROFILED.strip()} profiled; compared with profiled runs alone"


def tables_of(found: Interference, width: int | None = None) -> Iterator[Table]:
    """Yield the terminal's tables of slowdowns and, if there are any, of outcomes."""
    yield _table(slowdowns(found), width, list(notes(found)))
    if (second := outcomes(found)).lines:
        yield _table(second, width)


def heatmap(grid: Grid) -> Table:
    """Return a heat map for the terminal."""
    made = table(
        "slowdown of",
        *(f">{escape(column)}" for column in grid.columns),
        title=f"beside, sharing: {escape(grid.sharing)}",
    )
    for row, name in enumerate(grid.rows):
        cells = [grid.cells.get((row, column), Cell("")) for column in range(len(grid.columns))]
        made.add_row(escape(name), *map(_colored, cells))
    return made


def _sheet(title: str, columns: Sequence[str], lines: Sequence[tuple[Cell, ...]]) -> Sheet:
    """Return a table without empty columns, which would take space on the screen."""
    kept = [at for at, _ in enumerate(columns) if any(line[at].text for line in lines)]
    return Sheet(title, tuple(columns[at] for at in kept), tuple(tuple(line[at] for at in kept) for line in lines))


def _table(sheet: Sheet, width: int | None, notes: Sequence[str] = ()) -> Table:
    texts = [[line[at].text for line in sheet.lines] for at in range(len(sheet.columns))]
    # Lines that differ in it alone would look the same without it.
    needed = {
        column for column, text in zip(sheet.columns, texts, strict=True) if column == "sharing" and len({*text}) > 1
    }
    fields = [
        Field(
            column,
            [_colored(line[at]) for line in sheet.lines],
            None if column in needed else _RANKS.get(column),
            column in _WRAPS,
        )
        for at, column in enumerate(sheet.columns)
    ]
    return fitted(fields, width, title=sheet.title, notes=notes)


def _colored(cell: Cell) -> str:
    return f"[{cell.ink} on {cell.color}] {escape(cell.text)} [/]" if cell.color else escape(cell.text)


def _marks(members: Sequence[Member]) -> str:
    simulated, profiled = any(one.simulated for one in members), any(one.profiled for one in members)
    return SIMULATED * simulated + _PROFILED * profiled


def _slowdown(one: Set, member: Member) -> Cell:
    if member.slowdown is None:
        return Cell("")
    found = member.slowdown.ratio
    mark = _TOGETHER if member.over == "together" else _DILUTED if member.diluted else ""
    if one.verdict == "disturbed":
        return Cell(f"{found.value:.2f}x{mark}{_DISTURBED}", _interval(found))
    return Cell(f"{found.value:.2f}x{mark}", _interval(found), shade(found.value))


def _interval(found: Ratio) -> str:
    return "" if found.low is None else f"{found.low:.2f} to {found.high:.2f}"


def _change(found: Ratio) -> str:
    return "" if found.low is None or found.high is None else f"{found.low - 1:+.0%} to {found.high - 1:+.0%}"


def _throughput(one: Set) -> str:
    """Return the throughput side by side, and one after the other in brackets, in the finest unit of work of all runs."""
    what = next(what for what in ("steps", "epochs", "runs") if what in one.work)
    if (rates := one.rates(what)) is None:
        return ""
    each, unit = (3600, f"{what}/h") if what == "runs" else (1, f"{what}/s")
    return f"{rates[0] * each:.4g} {unit} ({rates[1] * each:.4g})"


def _energy(found: Against | None) -> str:
    return "" if found is None else f"{value_text('_joules', found.together)} ({found.ratio.value - 1:+.0%})"
