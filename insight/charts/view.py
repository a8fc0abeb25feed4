"""View: a selection of metrics and runs as a small file, without data.

    {"hypergauge": 1, "charts": [
      {"runs": ["4f1c9a2b7d3e", "a81b02c4d5e6"], "metrics": ["cpu_usage"]},
      {"metrics": ["loss"], "align": "step"}
    ]}

A chart lists only the keys that differ from the defaults of `ViewChart`. Without ``runs`` it has those of the chart before.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hypergauge import __version__
from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.comparison.alignment import check_align
from hypergauge.insight.comparison.columns import SCOPES
from hypergauge.insight.part import Part
from hypergauge.sql.runs.selection import RunInfo, abbreviated_ids, runs_by_id
from hypergauge.sql.server.database import Connection

__all__ = ["Found", "View", "ViewChart"]

VERSION = 1

_BY = ("run", "workload")
_RUN_ID = re.compile(r"[0-9a-f]{6,32}")
# A larger file is not a view: ten thousand runs need less.
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class ViewChart:
    """Chart of a view: some metrics of some runs.

    Attributes
    ----------
    runs
        Ids, ours or MLflow's, or their prefixes. Not labels, since ``20/1/3`` changes its meaning with the next attempt.
    metrics
        Quantities, or names of software metrics.
    by
        ``run`` for a curve per run, ``workload`` for a curve over the runs of each workload.
    align
        ``time`` (since the start), ``step``, ``epoch``, ``phase``, or ``phase:NAME``.
    scopes
        Some of `hypergauge.insight.comparison.columns.SCOPES`; empty for the narrowest of each run.
    from_, to
        Range of the time since each run's start, as durations; empty for an open end. The key in the file is ``from``.
    phase
        Name of a phase; empty for whole runs.
    """

    runs: tuple[str, ...]
    metrics: tuple[str, ...]
    by: str = "run"
    align: str = "time"
    scopes: tuple[str, ...] = ()
    from_: str = ""
    to: str = ""
    phase: str = ""

    @property
    def part(self) -> Part | None:
        """Part of the runs; ``None`` for whole runs."""
        return Part.of(self.from_ or None, self.to or None, self.phase or None)

    @classmethod
    def of(cls, connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], **options: Any) -> ViewChart:
        """Return a chart of runs, with their shortest unique ids."""
        return cls(tuple(abbreviated_ids(connection, [run.run_id for run in runs])), tuple(metrics), **options)

    def as_dict(self) -> dict[str, Any]:
        """Return the keys for the file: those that differ from the defaults."""
        values = {key: (getattr(self, name), default) for key, (name, _, default) in _KEYS.items()}
        return {key: value for key, (value, default) in values.items() if value != default}

    def __post_init__(self) -> None:
        for name in ("runs", "metrics"):
            if not getattr(self, name):
                raise BadRequest(f"{name} is empty")
        for one in self.runs:
            if not _RUN_ID.fullmatch(one):
                raise BadRequest(f"runs: {one!r} is not a run's id; `bench list SELECTOR` shows them")
        if self.by not in _BY:
            raise BadRequest(f"by: there is no {self.by!r}{did_you_mean(self.by, _BY)}")
        try:
            check_align(self.align)
        except BadRequest as error:
            raise BadRequest(f"align: {error}") from None
        for scope in self.scopes:
            if scope not in SCOPES:
                raise BadRequest(f"scopes: there is no {scope!r}{did_you_mean(scope, SCOPES)}")
        try:
            Part.of(self.from_ or None, self.to or None, self.phase or None)
        except BadRequest as error:
            raise BadRequest(str(error).replace("--", "")) from None


# Keys of a chart: name of the field, whether a list, and the default.
_LISTS = ("runs", "metrics", "scopes")
_KEYS = {one.name.rstrip("_"): (one.name, one.name in _LISTS, one.default) for one in fields(ViewChart)}


@dataclass(frozen=True, slots=True)
class View:
    """One or more charts, in order."""

    charts: tuple[ViewChart, ...]

    @classmethod
    def read(cls, path: Path) -> View:
        """Read a view from a file.

        Raises
        ------
        BadRequest
            The file is missing, is not a view, is of a later version, or has an error; the message names the position.
        """
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise BadRequest(error.strerror or str(error), file=path) from error
        if len(content) > _MOST_BYTES:
            raise BadRequest("not a view: that is a few hundred bytes", file=path)
        try:
            return cls(tuple(_charts(json.loads(content))))
        except json.JSONDecodeError as error:
            message = f"not a view: invalid JSON: {error.msg}"
            raise BadRequest(message, file=path, line=error.lineno, column=error.colno) from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise BadRequest("not a view: invalid JSON", file=path) from error
        except BadRequest as error:
            raise BadRequest(str(error), file=path) from error

    def write(self, path: Path) -> None:
        """Write a file, or replace one and keep its mode."""
        target = path.resolve()
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
        write_atomically(target, self.text(), mode)

    def text(self) -> str:
        """Return the content of the file."""
        lines, before = [], None
        for one in self.charts:
            content = one.as_dict()
            if before is not None and one.runs == before.runs:
                del content["runs"]
            lines.append(json.dumps(content, ensure_ascii=False))
            before = one
        joined = ",\n  ".join(lines)
        return f'{{"hypergauge": {VERSION}, "charts": [\n  {joined}\n]}}\n'

    def find(self, connection: Connection) -> Found:
        """Return the current data of the view.

        Raises
        ------
        NoData
            All its runs are deleted.
        BadRequest
            A prefix has become ambiguous.
        """
        wanted = tuple(dict.fromkeys(one for chart in self.charts for one in chart.runs))
        there = runs_by_id(connection, wanted)
        deleted = tuple(one for one in wanted if one not in there)
        if not there:
            raise NoData(f"all runs of this view are deleted: {', '.join(deleted)}")
        whole = (
            (number, chart, tuple(dict.fromkeys(there[one].run_id for one in chart.runs if one in there)))
            for number, chart in enumerate(self.charts)
        )
        left = [(number, replace(chart, runs=ids)) for number, chart, ids in whole if ids]
        runs = {run.run_id: run for run in there.values()}
        return Found(View(tuple(chart for _, chart in left)), runs, deleted, tuple(number for number, _ in left))


@dataclass(frozen=True, slots=True)
class Found:
    """Current data of a view.

    Attributes
    ----------
    view
        The view with full ids, without deleted runs, and without charts that have no runs left.
    runs
        Runs by full id.
    deleted
        Ids of deleted runs.
    positions
        Position in the file of each chart, from 0.
    """

    view: View
    runs: Mapping[str, RunInfo]
    deleted: tuple[str, ...]
    positions: tuple[int, ...]

    def draw(self, connection: Connection, file: Path) -> tuple[list[tuple[ViewChart, Chart]], list[str]]:
        """Return the charts with data, and the reasons for which others are missing.

        Raises
        ------
        NoData
            No chart has data.
        BadRequest
            The runs of a chart have no such metric; the message names the position in `file`.
        """
        charts, missing = [], []
        for position, one in zip(self.positions, self.view.charts, strict=True):
            runs = [self.runs[run_id] for run_id in one.runs]
            try:
                drawn = chart(
                    connection, runs, one.metrics, by=one.by, align=one.align, scopes=one.scopes or None, part=one.part
                )
            except BadRequest as error:
                raise BadRequest(f"charts[{position}]: {error}", file=file) from error
            except NoData as error:
                missing.append(f"chart {position + 1} is left out: {error}")
            else:
                charts.append((one, drawn))
        if not charts:
            raise NoData("; ".join(missing))
        return charts, missing


def _charts(content: object) -> list[ViewChart]:
    """Return the charts in the content of a file."""
    if not isinstance(content, dict) or type(content.get("hypergauge")) is not int:
        raise BadRequest('not a view: that begins with {"hypergauge": 1, "charts": [')
    if (version := content["hypergauge"]) > VERSION:
        raise BadRequest(
            f"hypergauge: this view is of version {version}, and hypergauge {__version__} reads version {VERSION}: "
            "install a newer hypergauge"
        )
    _refuse_unknown("", content, ("hypergauge", "charts"))
    raw = content.get("charts")
    if version < 1 or not isinstance(raw, list) or not raw:
        raise BadRequest("charts must be a list of at least one chart")
    charts: list[ViewChart] = []
    for number, one in enumerate(raw):
        charts.append(_chart(f"charts[{number}]", one, charts[-1] if charts else None))
    return charts


def _chart(where: str, content: object, before: ViewChart | None) -> ViewChart:
    if not isinstance(content, dict):
        raise BadRequest(f"{where} is not an object in braces")
    _refuse_unknown(f"{where}.", content, tuple(_KEYS))
    if "runs" not in content and before is not None:
        content = {**content, "runs": list(before.runs)}
    values: dict[str, Any] = {}
    for key, (name, is_list, _) in _KEYS.items():
        if key not in content:
            continue
        value = content[key]
        words = value if isinstance(value, list) else [value]
        if isinstance(value, list) is not is_list or not all(isinstance(word, str) and word for word in words):
            kind = "a list of strings" if is_list else "a string"
            raise BadRequest(f"{where}.{key} is {json.dumps(value)}, but must be {kind}")
        values[name] = tuple(dict.fromkeys(words)) if is_list else value
    for key in ("runs", "metrics"):
        if key not in values:
            raise BadRequest(f"{where} has no {key}")
    try:
        return ViewChart(**values)
    except BadRequest as error:
        raise BadRequest(f"{where}.{error}") from error


def _refuse_unknown(where: str, content: dict[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key not in known:
            raise BadRequest(f"{where}{key} is unknown{did_you_mean(key, known)}")
