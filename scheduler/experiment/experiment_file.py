"""Experiment file: a CSV file with one run per row, read and written back."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment import cells, csv_text, user_file
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.csv_text import Cell, Problem
from hypergauge.scheduler.experiment.table import Table, identity
from hypergauge.sql.ingest.choices import Choice

__all__ = ["BadExperimentFile", "ExperimentFile", "Row", "fingerprint"]

T = TypeVar("T")
_PROJECT_FILE = "mlproject"


class BadExperimentFile(BadRequest):
    """Error for an invalid experiment file; the message has one line ``file:line:column: problem`` for each problem."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        super().__init__("\n".join(f"{file}:{p.line}:{p.column}: {p.message}" for p in self.problems))
        self.file, self.line, self.column = file, self.problems[0].line, self.problems[0].column


@dataclass(frozen=True, slots=True)
class Row:
    """Row of an experiment file; missing columns and empty cells have their defaults.

    Attributes
    ----------
    line
        First line of the row in the file, counted from 1; the key of the row in `ExperimentFile.update`.
    experiment, workload
        Ids, 0 to 999,999,999.
    name
        Display name; by default the model, or the script without its suffix.
    status
        Status in lower case, without the suffix that radT appends; empty for a run to do.
    run
        Run id, or empty.
    devices
        GPU indices or UUIDs, as written.
    script, model
        Script or model to run: exactly one is set.
    listeners
        Exporters that measure the run, with their intervals; ``None`` for all that work on the host.
    wrappers
        Profilers that wrap the run: ``nsys``, ``ncu``, ``perf``, ``torch``.
    params
        Arguments of the script.
    actions
        Pairs of a rule and the action that runs when the rule fires.
    cells
        Cells of the file by column; known columns by their spelling in `columns.COLUMNS`.
    """

    line: int
    experiment: int
    workload: int
    name: str
    status: str
    run: str
    devices: tuple[str, ...]
    collocation: Collocation
    environment: Environment
    script: str | None
    model: str | None
    data: str
    listeners: Choice | None = field(hash=False)
    wrappers: tuple[str, ...]
    params: list[str] = field(hash=False)
    actions: tuple[tuple[str, str], ...]
    cells: Mapping[str, Cell] = field(compare=False, repr=False)


class ExperimentFile:
    """Experiment file: the rows at the time of reading, and the write-back of statuses and run ids.

    Attributes
    ----------
    path
        Path as given by the user.
    rows
        Rows in file order.
    unknown_columns
        Columns of the user that the scheduler ignores.
    """

    def __init__(self, path: Path, rows: Iterable[Row], unknown_columns: Iterable[str] = ()) -> None:
        self.path = path
        self.rows = tuple(rows)
        self.unknown_columns = tuple(unknown_columns)
        self._runs = {row.line: row.run for row in self.rows}

    @classmethod
    def read(cls, path: Path) -> ExperimentFile:
        """Read a file in which every row is well-formed.

        Raises
        ------
        BadRequest
            The file cannot be read or written.
        BadExperimentFile
            The file has errors; the message lists all of them.
        """
        file, problems = cls.parse(path)
        if problems:
            raise BadExperimentFile(path, problems)
        return file

    @classmethod
    def parse(cls, path: Path) -> tuple[ExperimentFile, list[Problem]]:
        """Return the file with its well-formed rows, and the errors of the other rows.

        Raises
        ------
        BadRequest
            The file is empty or malformed, or cannot be read or written.
        """
        problems: list[Problem] = []
        table = Table.parse(user_file.read_text(path), problems)
        user_file.require_writable(path)
        if table is None:
            raise BadRequest("the file is empty", file=path)
        problems += table.header_problems()
        if problems:  # cell positions are unreliable, so errors of rows would mislead
            raise BadExperimentFile(path, problems)
        if not table.records:
            raise BadRequest("there is a header, but no rows", file=path, line=table.header[0].line)
        rows = [_parse_row(table, record, problems) for record in table.records]
        return cls(path, [row for row in rows if row], [cell.text for cell in table.unknown]), problems

    @classmethod
    def from_cells(cls, path: Path, cells: Mapping[str, str]) -> ExperimentFile:
        """Return an experiment file with one row of these cells, without reading `path`.

        Raises
        ------
        BadExperimentFile
            The row is not well-formed.
        """
        text = io.StringIO()
        csv.writer(text).writerows([cells.keys(), cells.values()])
        problems: list[Problem] = []
        table = Table.parse(text.getvalue(), problems)
        rows = [_parse_row(table, record, problems) for record in table.records] if table else []
        if problems:
            raise BadExperimentFile(path, problems)
        return cls(path, [row for row in rows if row])

    def candidates(self, word: str) -> list[Path]:
        """Return the candidates for a relative path: in the working directory, then in the file's folder."""
        wanted = Path(word).expanduser()
        return list(dict.fromkeys(folder / wanted for folder in (Path.cwd(), self.path.absolute().parent)))

    def script(self, row: Row) -> Path | None:
        """Return the script of a row; ``None`` if it does not exist or is an ``MLproject`` file."""
        found = next((path for path in self.candidates(row.script or "") if path.is_file()), None)
        return None if found and found.name.lower() == _PROJECT_FILE else found

    def project(self, row: Row) -> Path | None:
        """Return the folder of a row's MLflow project; ``None`` if `script` names no folder with an ``MLproject``."""
        for path in self.candidates(row.script or ""):
            folder = path if path.is_dir() else path.parent
            wanted = path.name.lower() == _PROJECT_FILE if path.is_file() else path.is_dir()
            if wanted and any(one.name.lower() == _PROJECT_FILE for one in folder.iterdir()):
                return folder
        return None

    def update(self, changes: Mapping[int, tuple[str, str]]) -> frozenset[int]:
        """Write statuses and run ids back into the current version of the file.

        Only the cells ``Status`` and ``Run`` of these rows change; missing columns are appended. Edits of the user
        since the file was read are kept. Rows are matched by run id, else by their other cells; equal rows are matched
        in order.

        Parameters
        ----------
        changes
            ``(status, run)`` by `Row.line`.

        Returns
        -------
        frozenset of int
            Lines of rows that are no longer in the file.

        Raises
        ------
        BadRequest
            The file was deleted, or cannot be read or written. The file is unchanged.
        """
        if not changes:
            return frozenset()
        with user_file.locked(self.path):
            before = user_file.read_text(self.path)
            problems: list[Problem] = []
            table = Table.parse(before, problems)
            if problems:
                raise BadExperimentFile(self.path, problems)
            indices = self._find_rows(table) if table else {}
            values = {indices[line]: value for line, value in changes.items() if line in indices}
            if table and values:
                after = csv_text.edit(before, table.write_back(values))
                if after != before:
                    user_file.rewrite(self.path, after)
        self._runs |= {line: run for line, (_, run) in changes.items() if line in indices}
        return frozenset(changes.keys() - indices.keys())

    def _find_rows(self, table: Table) -> dict[int, int]:
        """Return the index of each row's record in `table`, by `Row.line`."""
        whole = [index for index, record in enumerate(table.records) if len(record) == len(table.header)]
        by_run: defaultdict[str, list[int]] = defaultdict(list)
        for index in whole:
            by_run[table.text(index, "Run")].append(index)
        found: dict[int, int] = {}
        for row in self.rows:
            if (run := self._runs[row.line]) and (same := by_run[run]):
                # A user may copy a row with its run id and edit the copy: prefer the unchanged one.
                index = min(same, key=lambda index: table.identity_of(index) != identity(row.cells))
                same.remove(index)
                found[row.line] = index
        by_identity: defaultdict[tuple[str, ...], deque[int]] = defaultdict(deque)
        taken = set(found.values())
        for index in whole:
            if index not in taken:
                by_identity[table.identity_of(index)].append(index)
        for row in self.rows:
            if row.line not in found and (alike := by_identity[identity(row.cells)]):
                found[row.line] = alike.popleft()
        return found


def fingerprint(row: Row) -> str:
    """Return the identity of a row across runs: SHA-256 in hex of command, environment, devices and collocation."""
    command = [row.script, row.model, row.data, row.params]
    content = [command, str(row.environment), row.devices, str(row.collocation)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _parse_row(table: Table, record: tuple[Cell, ...], problems: list[Problem]) -> Row | None:
    wanted, there = len(table.header), len(record)
    if there != wanted:
        at = record[min(wanted, there - 1)]
        what = f"the row has {there} cells, but the header has {wanted}"
        hint = "; a cell with a comma in it has to stand in double quotes" if there > wanted else ""
        problems.append(Problem(at.line, at.column, what + hint))
        return None
    by_column = {name: record[position] for name, position in table.columns.items()}
    known = len(problems)

    def value(column: str, parse: Callable[[str], T], default: T) -> T:
        cell = by_column.get(column)
        try:
            return parse(cell.text) if cell else default
        except BadRequest as error:
            at = cell or record[0]
            problems.append(Problem(at.line, at.column, f"{column}: {error}"))
            return default

    script, model = value("File", str, ""), value("Model", str, "")
    if bool(script) == bool(model):
        at = by_column.get("File") or by_column["Model"]
        what = "both a File and a Model; leave one empty" if script else "neither a File nor a Model to run"
        problems.append(Problem(at.line, at.column, f"the row has {what}"))
    nothing: tuple[Choice | None, tuple[str, ...]] = (None, ())
    listeners, wrappers = value("Listeners", cells.parse_listeners, nothing)
    row = Row(
        line=record[0].line,
        experiment=value("Experiment", cells.parse_number, 0),
        workload=value("Workload", cells.parse_number, 0),
        name=value("Name", str, "") or model or Path(script).stem,
        status=value("Status", cells.parse_status, ""),
        run=value("Run", str, ""),
        devices=value("Devices", cells.parse_devices, ()),
        collocation=value("Collocation", Collocation.parse, Collocation()),
        environment=value("Environment", Environment.parse, Environment()),
        script=script or None,
        model=model or None,
        data=value("Data", str, ""),
        listeners=listeners,
        wrappers=wrappers,
        params=value("Params", cells.parse_params, []),
        actions=value("Actions", cells.parse_actions, ()),
        cells=by_column,
    )
    return row if len(problems) == known else None
