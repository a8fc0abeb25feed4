"""Time and energy of runs to a target: ``accuracy>=0.95``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.comparison.columns import (
    COLUMNS,
    ENERGY_KEY,
    ENERGY_TO_TARGET,
    PARTS,
    TIME_TO_TARGET,
    values_of,
)
from hypergauge.insight.comparison.energy import parts_of, total_of
from hypergauge.insight.comparison.entry import Entry, Further, Missing
from hypergauge.sql.queries.charts.axes import Interval, without_raw_samples
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.costs import COMPARISONS, Reached, reached
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.queries.summaries import Summary, gpu_facts, summaries_between
from hypergauge.sql.server.database import Connection

__all__ = ["Target", "towards"]

_FORM = re.compile(rf"\s*(.+?)\s*({'|'.join(COMPARISONS)})\s*(\S+)\s*")
_ENERGY = ("gpu_power", *(column.quantity for column in COLUMNS if column.key in PARTS))


@dataclass(frozen=True, slots=True)
class Target:
    """Threshold of a software metric for runs to reach."""

    key: str
    comparison: str
    value: float

    def __str__(self) -> str:
        return f"{self.key}{self.comparison}{self.value:g}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse a target.

        Raises
        ------
        BadRequest
            The text is not a target.
        """
        try:
            key, comparison, value = _FORM.fullmatch(text).groups()  # type: ignore[union-attr]
            return cls(key, comparison, float(value))
        except (AttributeError, ValueError):
            raise BadRequest(
                f"a target is a software metric, one of {', '.join(COMPARISONS)} and a number, such as accuracy>=0.95; "
                f"{text!r} is not"
            ) from None


def towards(target: Target, *, simulated: bool = False) -> Further:
    """Return a function that adds to entries the time and energy until they first reached a target.

    Raises
    ------
    BadRequest
        None of the runs has logged the metric; raised by the returned function.
    """

    def add(connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
        ids = [entry.runs[0].run_id for entry in entries]
        found = reached(connection, ids, target.key, target.comparison, target.value)
        if not found:
            keys = sorted(software_keys(connection, ids))
            raise BadRequest(f"none of these runs has logged {target.key!r}{did_you_mean(target.key, keys)}")
        energy = _energy(connection, entries, found, simulated)
        return [_with(entry, target, found.get(entry.runs[0].run_id), energy) for entry in entries]

    return add


def _with(entry: Entry, target: Target, one: Reached | None, energy: dict[str, float | Reason]) -> Entry:
    [run] = entry.runs
    values, reasons = dict(entry.values), {}
    if one is None or one.time is None or run.started_at is None:
        missed = Reason("target_missed", {"target": str(target), "best": one and one.best})
        reason = missed if one else Reason("metric_not_logged", {"key": target.key})
        reasons = dict.fromkeys((TIME_TO_TARGET, ENERGY_TO_TARGET), reason)
    else:
        values[TIME_TO_TARGET] = (one.time - run.started_at).total_seconds()
        joules = energy[run.run_id]
        if isinstance(joules, Reason):
            reasons[ENERGY_TO_TARGET] = joules
        else:
            values[ENERGY_TO_TARGET] = joules
    missing = (Missing(key, entry.label, reason) for key, reason in reasons.items())
    return replace(entry, values=values, target=str(target), missing=(*entry.missing, *missing))


def _energy(
    connection: Connection, entries: Sequence[Entry], found: dict[str, Reached], simulated: bool
) -> dict[str, float | Reason]:
    """Return for each run that reached the target the joules until then, or the reason for which they are unknown.

    They are the total of all parts if all of these runs have the same parts, else those of the GPUs.
    """
    parts = [
        Interval(run.run_id, 0.0, 0.0, run.started_at, at, None)
        for entry in entries
        for run in entry.runs
        if run.started_at and run.run_id in found and (at := found[run.run_id].time) is not None
    ]
    ids = [part.run_id for part in parts]
    deleted = without_raw_samples(connection, ids)
    facts = gpu_facts(connection, ids)
    measured: dict[str, list[Summary]] = {}
    for one in summaries_between(connection, [part for part in parts if part.run_id not in deleted], _ENERGY):
        measured.setdefault(one.run_id, []).append(one)
    until = {
        part.run_id: values_of(
            measured.get(part.run_id, ()), facts[part.run_id], part.seconds, None,
            electric=simulated or not facts[part.run_id].simulated,
        ).values
        for part in parts
    }  # fmt: skip
    whole = len({parts_of(until[run]) for run in until if run not in deleted}) == 1
    known: dict[str, float | Reason] = {}
    for part in parts:
        run = part.run_id
        electric = simulated or not facts[run].simulated
        joules = total_of(until[run]) if whole else until[run].get(ENERGY_KEY)
        if run in deleted:
            known[run] = Reason("raw_samples_deleted")
        elif joules is None:
            known[run] = Reason("no_own_energy" if electric else "gpus_simulated")
        else:
            known[run] = joules
    return known
