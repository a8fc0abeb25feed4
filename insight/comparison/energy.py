"""Total energy of compared runs, and the energy of an epoch, a step and a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hypergauge.insight.comparison.columns import (
    EPOCH_ENERGY,
    PARTS,
    SAMPLE_ENERGY,
    SAMPLES_PER_JOULE,
    STEP_ENERGY,
    SYSTEM_ENERGY,
    TOKENS_PER_JOULE,
    TOTAL_ENERGY,
)
from hypergauge.insight.comparison.entry import Entry
from hypergauge.sql.queries.charts.axes import Interval, tracked_counts
from hypergauge.sql.queries.throughput import Throughput
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["parts_of", "per_unit", "together", "total_of", "with_total"]

# Software metric of a script that counts its samples, and parameters with the samples of a step.
_SAMPLES = "samples"
_BATCH_SIZES = ("batch_size", "batch-size", "batchsize")
_NUMBER = re.compile(r"[0-9]+")
_PER = (EPOCH_ENERGY, STEP_ENERGY, SAMPLE_ENERGY, SAMPLES_PER_JOULE, TOKENS_PER_JOULE)


def parts_of(values: Mapping[str, float]) -> tuple[str, ...]:
    """Return the names of the parts in a total. The energy of a whole system includes those of its parts."""
    found = tuple(name for key, name in PARTS.items() if key in values)
    return ("system",) if SYSTEM_ENERGY in values else found


def with_total(entry: Entry) -> Entry:
    """Return an entry with the sum of its energies."""
    values = {key: value for key, value in entry.values.items() if key != TOTAL_ENERGY}
    if (total := total_of(values)) is not None:
        values[TOTAL_ENERGY] = total
    return replace(entry, values=values, energy_parts=parts_of(values))


def total_of(values: Mapping[str, float]) -> float | None:
    """Return the sum of the parts in joules; ``None`` without any."""
    parts = parts_of(values)
    return sum(values[key] for key, name in PARTS.items() if name in parts) if parts else None


def together(entry: Entry, group: Sequence[Entry]) -> Entry:
    """Return the aggregate of runs with the sum of its energies, and without those per unit if the runs' parts differ."""
    summed = with_total(entry)
    if all(one.energy_parts == summed.energy_parts for one in group if one.energy_parts):
        return summed
    values = {key: value for key, value in summed.values.items() if key not in _PER}
    return replace(summed, values=values)


def per_unit(
    connection: Connection, entries: Sequence[Entry], intervals: Mapping[str, Interval], found: Mapping[str, Throughput]
) -> list[Entry]:
    """Return the entries of runs with the energy of an epoch, a step and a sample, and samples and tokens per joule.

    Epochs and steps are those of the client's spans. Samples are those that the steps count. Else they are the last value of
    the software metric ``samples``, or the steps times a parameter such as ``batch_size`` for a run on at most one GPU.

    Parameters
    ----------
    intervals
        Parts of runs by id, to which their energies belong.
    found
        What the steps of these parts count, by run id.
    """
    ids = [entry.runs[0].run_id for entry in entries if TOTAL_ENERGY in entry.values]
    epochs, steps = (tracked_counts(connection, ids, kind, intervals) for kind in ("epoch", "step"))
    measured = []
    for entry in entries:
        [run] = entry.runs
        if not (joules := entry.values.get(TOTAL_ENERGY)):
            measured.append(entry)
            continue
        counted = found.get(run.run_id)
        samples = counted and counted.samples
        samples = samples or _samples(entry, steps.get(run.run_id), whole=run.run_id not in intervals)
        counts = {
            EPOCH_ENERGY: epochs.get(run.run_id),
            STEP_ENERGY: steps.get(run.run_id),
            SAMPLE_ENERGY: samples,
        }
        per = {key: joules / count for key, count in counts.items() if count}
        amounts = {SAMPLES_PER_JOULE: samples, TOKENS_PER_JOULE: counted and counted.tokens}
        per |= {key: amount / joules for key, amount in amounts.items() if amount}
        measured.append(replace(entry, values={**entry.values, **per}))
    return measured


def _samples(entry: Entry, steps: float | None, *, whole: bool) -> float | None:
    if whole and (counted := entry.software.get(_SAMPLES)):
        return counted
    [run] = entry.runs
    # On several GPUs a batch may be that of each, or of all.
    size = next(_batch_sizes(run), None) if len(_devices(run)) <= 1 else None
    return steps * size if steps and size else None


def _batch_sizes(run: RunInfo) -> Iterator[int]:
    params = {name.lower().lstrip("-"): str(value) for name, value in run.params.items()}
    return (int(params[name]) for name in _BATCH_SIZES if name in params and _NUMBER.fullmatch(params[name]))


def _devices(run: RunInfo) -> Sequence[str]:
    return [one for one in run.devices.split("+") if one]
