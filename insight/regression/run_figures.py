"""Values of runs by the names in conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.comparison.columns import COLUMNS, ENERGY_KEY
from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.insight.comparison.entry import Entry
from hypergauge.sql.queries.axes import Pace, paces
from hypergauge.sql.server.database import Connection

__all__ = ["RunFigure", "check_name", "run_figures"]

_SHORT = {"duration": "duration_seconds", "energy": ENERGY_KEY}
_PACED = {"step_time": "step", "epoch_time": "epoch", "throughput": "step"}
# What a run may have, though those that were asked about do not.
_KNOWN = (*_SHORT, *_PACED, "duration_seconds", *(column.key for column in COLUMNS))
_UNITS = {"cpu_utilization": "cores", "gpu_utilization": "ratio", "gpu_sm_active": "ratio"}
_SUFFIXES = ("seconds", "bytes", "watts", "joules")


@dataclass(frozen=True, slots=True)
class RunFigure:
    """A figure of a run.

    Attributes
    ----------
    key
        The column of a comparison that shows it, else the name that it was asked for by.
    scope
        The scope that it was measured in; empty where it has none.
    idle
        Whether it is an energy with what GPUs draw when they have nothing to do.
    """

    key: str
    value: float
    unit: str
    scope: str = ""
    idle: bool = False


def run_figures(connection: Connection, found: Comparison) -> dict[str, dict[str, RunFigure]]:
    """Return by run id what each run of a comparison of runs has, by name; what is left without a name has no value.

    A name that several things have means the short name first, then the column, the mean of the quantity, and what was logged
    last.
    """
    stretches = found.window.stretches if found.window else {}
    ids = [run.run_id for entry in found.entries for run in entry.runs]
    by_kind = {kind: paces(connection, ids, kind, stretches) for kind in ("step", "epoch")}
    return {
        run.run_id: _of_run(entry, {kind: some.get(run.run_id) for kind, some in by_kind.items()})
        for entry in found.entries
        for run in entry.runs
    }


def check_name(name: str, figures: Mapping[str, Mapping[str, RunFigure]]) -> None:
    """Refuse a name that no figure has.

    Raises
    ------
    BadRequest
        It is no column, quantity or software metric of these runs.
    """
    known = dict.fromkeys((*_KNOWN, *(one for some in figures.values() for one in some)))
    if name not in known:
        raise BadRequest(f"--fail-on: the runs have no figure {name!r}{did_you_mean(name, known)}")


def _of_run(entry: Entry, pace: Mapping[str, Pace | None]) -> dict[str, RunFigure]:
    found = {key: RunFigure(key, value, "") for key, value in entry.software.items() if value is not None}
    for name, quantity in entry.quantities.items():
        if quantity["mean"] is not None:
            found[name] = RunFigure(name, quantity["mean"], quantity["unit"], quantity["scope"])
    for key, value in entry.figures.items():
        idle = key == ENERGY_KEY and entry.has_idle_energy
        found[key] = RunFigure(key, value, _unit(key), entry.scopes.get(key, ""), idle)
    found |= {name: found[key] for name, key in _SHORT.items() if key in found}
    for name, kind in _PACED.items():
        if one := pace[kind]:
            value, unit = (one.rate, "steps/s") if name == "throughput" else (one.seconds, "seconds")
            found[name] = RunFigure(name, value, unit)
    return found


def _unit(key: str) -> str:
    return _UNITS.get(key) or next((unit for unit in _SUFFIXES if key.endswith(f"_{unit}")), "")
