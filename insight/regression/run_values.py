"""Values of runs, by their names in conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.comparison.columns import COLUMNS, DATA_WAIT, ENERGY_KEY, MFU, is_of_total
from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.insight.comparison.entry import Entry
from hypergauge.sql.queries.charts.axes import Pace, paces
from hypergauge.sql.server.database import Connection

__all__ = ["RunValue", "check_name", "run_values"]

_SHORT = {"duration": "duration_seconds", "energy": ENERGY_KEY}
_PACED = {"step_time": "step", "epoch_time": "epoch", "throughput": "step"}
# Names that any run may have: short ones, and columns of a comparison.
_KNOWN = (*_SHORT, *_PACED, "duration_seconds", *(column.key for column in COLUMNS))
_UNITS = {
    "cpu_utilization": "cores",
    "gpu_utilization": "ratio",
    "gpu_sm_active": "ratio",
    DATA_WAIT: "ratio",
    MFU: "ratio",
}
_SUFFIXES = ("seconds", "bytes", "watts", "joules")


@dataclass(frozen=True, slots=True)
class RunValue:
    """A value of a run.

    Attributes
    ----------
    key
        Column of a comparison, else the name in the condition.
    scope
        Scope of the measurement, if any.
    idle
        Whether it is an energy that includes idle energy.
    value
        NaN for a software metric whose last value was NaN or infinite, also if that was after the compared part of the run.
    divided
        Whether it is an energy that was divided evenly among several processes.
    """

    key: str
    value: float
    unit: str
    scope: str = ""
    idle: bool = False
    divided: bool = False


def run_values(connection: Connection, found: Comparison) -> dict[str, dict[str, RunValue]]:
    """Return the values of each run of a comparison by run id and name.

    No software metric has the name of another value.
    """
    intervals = found.window.intervals if found.window else {}
    ids = [run.run_id for entry in found.entries for run in entry.runs]
    by_kind = {kind: paces(connection, ids, kind, intervals) for kind in ("step", "epoch")}
    return {
        run.run_id: _of_run(entry, {kind: some.get(run.run_id) for kind, some in by_kind.items()})
        for entry in found.entries
        for run in entry.runs
    }


def check_name(name: str, values: Mapping[str, Mapping[str, RunValue]]) -> None:
    """Refuse an unknown name.

    Raises
    ------
    BadRequest
        No column, quantity or software metric of these runs has that name.
    """
    known = dict.fromkeys((*_KNOWN, *(one for some in values.values() for one in some)))
    if name not in known:
        raise BadRequest(f"--fail-on: the runs have no metric {name!r}{did_you_mean(name, known)}")


def _of_run(entry: Entry, pace: Mapping[str, Pace | None]) -> dict[str, RunValue]:
    found = {key: RunValue(key, math.nan if value is None else value, "") for key, value in entry.software.items()}
    # The part of a diverged run before the first NaN keeps any limit, and passes for none.
    found |= {key: RunValue(key, math.nan, "") for key in entry.diverged}
    for name, quantity in entry.quantities.items():
        if quantity["mean"] is not None:
            found[name] = RunValue(name, quantity["mean"], quantity["unit"], quantity["scope"])
    for key, value in entry.values.items():
        is_energy = key == ENERGY_KEY or is_of_total(key)
        # Totals of different parts differ in kind, as values of different scopes do.
        scope = "+".join(entry.energy_parts) if is_of_total(key) else entry.scopes.get(key, "")
        found[key] = RunValue(
            key, value, _unit(key), scope,
            idle=is_energy and entry.has_idle_energy, divided=is_energy and entry.energy_divided,
        )  # fmt: skip
    found |= {name: found[key] for name, key in _SHORT.items() if key in found}
    for name, kind in _PACED.items():
        if one := pace[kind]:
            value, unit = (one.rate, "steps/s") if name == "throughput" else (one.seconds, "seconds")
            found[name] = RunValue(name, value, unit)
    return found


def _unit(key: str) -> str:
    return _UNITS.get(key) or next((unit for unit in _SUFFIXES if key.endswith(f"_{unit}")), "")
