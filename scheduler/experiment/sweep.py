"""Sweep: a grid or random search as rows of an experiment file."""

from __future__ import annotations

import csv
import io
import itertools
import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment.draws import Value, drawn_pairs
from hypergauge.scheduler.experiment.sweep_file import SweepFile

__all__ = ["rows", "rows_of", "write"]

_MOST_ROWS, _MOST_PAIRS = 100_000, 1_000_000


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of the sweep in a file; see `rows`.

    Raises
    ------
    BadRequest
        The file is invalid, or the sweep has too many rows; names the file.
    """
    sweep = SweepFile.read(path)
    try:
        return rows(sweep)
    except BadRequest as error:
        raise BadRequest(str(error), file=path) from error


def rows(sweep: SweepFile) -> list[dict[str, str]]:
    """Return the rows of a sweep, as cells by column.

    The points are all combinations of draws and grid values. Each workload size and collocation adds one pass over all
    points, and then each collocation one over the pairs; a point keeps its name in every pass.

    Raises
    ------
    BadRequest
        The sweep has too many rows.
    """
    draws = len(next(iter(sweep.draws.values()))) if sweep.draws else 1
    points = draws * math.prod(len(values) for values in sweep.grid.values())
    every = points * (points + 1) // 2
    if sweep.pairs is not None and every > _MOST_PAIRS:
        raise BadRequest(f"the sweep has {every:,} pairs to draw from, but at most {_MOST_PAIRS:,} can be drawn from")
    pairs = [] if sweep.pairs is None else drawn_pairs(points, *sweep.pairs)
    count = (points * len(sweep.together) + 2 * len(pairs)) * len(sweep.collocations)
    if count > _MOST_ROWS:
        raise BadRequest(f"the sweep has {count:,} rows; an experiment file has at most {_MOST_ROWS:,}")
    width = len(str(points))
    named = [
        (sweep.name if points == 1 else f"{sweep.name}-{number:0{width}}", _params(sweep.params, point))
        for number, point in enumerate(_points(sweep), start=1)
    ]
    passes = [[named[first : first + together] for first in range(0, points, together)] for together in sweep.together]
    passes.append([[named[one], named[other]] for one, other in pairs])
    workloads = itertools.chain.from_iterable(
        ((collocation, members) for members in workloads)
        for workloads, collocation in itertools.product(passes, sweep.collocations)
    )
    return [
        _row(
            sweep,
            workload,
            name,
            sweep.devices[position % len(sweep.devices)] if sweep.devices else "",
            collocation,
            params,
        )
        for workload, (collocation, members) in enumerate(workloads, sweep.workload)
        for position, (name, params) in enumerate(members)
    ]


def write(path: Path, made: list[dict[str, str]]) -> None:
    """Write rows to a new file.

    Raises
    ------
    BadRequest
        The file exists or cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(made[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
    except FileExistsError:
        raise BadRequest("the file already exists; `bench sweep` never replaces a file", file=path) from None
    except OSError as error:
        raise BadRequest(f"the file cannot be written: {error.strerror}", file=path) from error


def _points(sweep: SweepFile) -> Iterator[dict[str, Value]]:
    draws = [dict(zip(sweep.draws, values, strict=True)) for values in zip(*sweep.draws.values(), strict=True)]
    for drawn in draws or [{}]:
        for values in itertools.product(*sweep.grid.values()):
            yield {**drawn, **dict(zip(sweep.grid, values, strict=True))}


def _params(fixed: str, point: Mapping[str, Value]) -> str:
    """Return the arguments of a point: ``--name=value``, ``--name`` for true, nothing for false."""
    words = []
    for name, value in point.items():
        if isinstance(value, bool):
            words += [f"--{name}"] if value else []
        else:
            words.append(f"--{name}={shlex.quote(str(value)) if value != '' else ''}")
    return " ".join(filter(None, [fixed, *words]))


def _row(sweep: SweepFile, workload: int, name: str, device: str, collocation: str, params: str) -> dict[str, str]:
    target = {"File": sweep.script} if sweep.script else {"Model": sweep.model, "Data": sweep.data}
    return {
        "Experiment": str(sweep.experiment),
        "Workload": str(workload),
        "Name": name,
        "Status": "",
        "Run": "",
        "Devices": device,
        "Collocation": collocation,
        "Environment": sweep.environment,
        **target,
        "Listeners": sweep.listeners,
        "Params": params,
    }
