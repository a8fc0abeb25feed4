"""Parameters of runs, to group them by and to draw results against."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["facets", "in_order", "logarithmic", "number", "parameter"]

_NUMBER = re.compile(r"(\d+)")
# An axis of numbers is logarithmic from this ratio of the largest to the smallest on: two decades.
_DECADES = 100.0


def parameter(runs: Sequence[RunInfo], name: str) -> dict[str, str]:
    """Return a parameter's value by run id. Runs without it are missing.

    Raises
    ------
    BadRequest
        None of the runs has such a parameter.
    """
    found = {run.run_id: str(run.params[name]) for run in runs if name in run.params}
    if not found:
        names = sorted({key for run in runs for key in run.params})
        raise BadRequest(f"these runs have no parameter {name!r}{did_you_mean(name, names)}")
    return found


def facets(runs: Sequence[RunInfo], name: str) -> dict[str, str]:
    """Return the title of each run's panel by run id, such as ``lr = 0.1``, in the order of the parameter's values.

    Runs without the parameter come last.
    """
    values = parameter(runs, name)
    titles = {
        run_id: f"{name} = {text}" for text in in_order(values.values()) for run_id in values if values[run_id] == text
    }
    return titles | {run.run_id: f"without {name}" for run in runs if run.run_id not in values}


def in_order(values: Iterable[str]) -> list[str]:
    """Return the distinct values: numbers by size, then texts, so that ``a2`` comes before ``a10``."""
    return sorted(dict.fromkeys(values), key=_rank)


def number(text: str) -> float | None:
    """Return a value as a finite number; ``None`` if it is none."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def logarithmic(numbers: Sequence[float]) -> bool:
    """Return whether an axis of these numbers is logarithmic: all are positive, and they span more than two decades."""
    return min(numbers) > 0 and max(numbers) > _DECADES * min(numbers)


def _rank(text: str) -> tuple[bool, float, list[tuple[bool, str]]]:
    size = number(text)
    parts = [(part.isdigit(), part.zfill(20) if part.isdigit() else part) for part in _NUMBER.split(text)]
    return size is None, size or 0.0, parts
