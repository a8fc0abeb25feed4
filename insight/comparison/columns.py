"""Columns of a comparison: quantity, statistic and source of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hypergauge.sql.queries.summaries import GpuFacts, Summary

__all__ = [
    "CO2_KEY",
    "COLUMNS",
    "DATA_WAIT",
    "ENERGY_KEY",
    "ENERGY_TO_TARGET",
    "EPOCH_ENERGY",
    "FLOPS_RATE",
    "LEAST_COVERAGE",
    "MFU",
    "PARTS",
    "SAMPLES_PER_JOULE",
    "SAMPLE_ENERGY",
    "SAMPLE_RATE",
    "SCOPES",
    "STEP_ENERGY",
    "STEP_RATE",
    "SYSTEM_ENERGY",
    "TIME_TO_TARGET",
    "TOKENS_PER_JOULE",
    "TOKEN_RATE",
    "TOTAL_ENERGY",
    "WHOLE_GPU",
    "Column",
    "ColumnValues",
    "cost_key",
    "is_of_energy",
    "is_of_gpu",
    "is_of_parts",
    "is_of_script",
    "is_of_total",
    "is_of_whole",
    "is_summed",
    "values_of",
]

# The narrowest first, so that a value of the host never counts as a run's own.
SCOPES = ("process", "instance", "device", "host")

ENERGY_KEY = "gpu_energy_joules"
# Energy of the whole system, such as a Jetson module: it includes all others.
SYSTEM_ENERGY = "system_energy_joules"
# Parts of a run's total energy: the name of each column.
PARTS = {ENERGY_KEY: "gpu", "cpu_energy_joules": "cpu", "dram_energy_joules": "dram", SYSTEM_ENERGY: "system"}
TOTAL_ENERGY = "energy_joules"
EPOCH_ENERGY = "energy_per_epoch_joules"
STEP_ENERGY = "energy_per_step_joules"
SAMPLE_ENERGY = "energy_per_sample_joules"
SAMPLES_PER_JOULE = "samples_per_joule"
TOKENS_PER_JOULE = "tokens_per_joule"
# Of the tracked steps, see `hypergauge.insight.comparison.throughput`.
STEP_RATE = "steps_per_second"
SAMPLE_RATE = "samples_per_second"
TOKEN_RATE = "tokens_per_second"  # noqa: S105 - no password
FLOPS_RATE = "flops_per_second"
DATA_WAIT = "data_wait_share"
MFU = "mfu"
CO2_KEY = "co2_grams"
TIME_TO_TARGET = "time_to_target_seconds"
ENERGY_TO_TARGET = "energy_to_target_joules"
_COST = "cost_"
# Energy method of a run alone on whole GPUs, without attribution by an exporter.
WHOLE_GPU = "whole_gpu"
_ATTRIBUTED = "gpu_energy_attributed"
# Below this share of a run's time, its means and totals are incomplete.
LEAST_COVERAGE = 0.9
# The kernel keeps the peak, however seldom it is read.
_KEPT = ("memory_peak",)
# Quantities that are not real electricity on simulated GPUs.
_ELECTRIC = frozenset({"gpu_power", _ATTRIBUTED, "gpu_energy_idle", "gpu_energy_other"})
# Each measured GPU has at least one of these.
_MEASURED = ("gpu_utilization", "gpu_sm_active", "gpu_memory_used")


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a comparison: a statistic of a quantity.

    Attributes
    ----------
    over
        Aggregate over the runs of a workload: ``sum`` of amounts, ``mean`` of levels and peaks.
    own
        Whether it is left out if known for the whole host only.
    """

    key: str
    quantity: str
    statistic: Literal["mean", "max", "total"]
    over: Literal["sum", "mean"]
    own: bool = True


COLUMNS = (
    Column("cpu_utilization", "cpu_usage", "mean", "mean"),
    Column("cpu_seconds", "cpu_usage", "total", "sum"),
    Column("peak_memory_bytes", "memory_peak", "max", "mean"),
    Column("disk_read_bytes", "disk_read", "total", "sum"),
    Column("disk_write_bytes", "disk_write", "total", "sum"),
    Column("gpu_utilization", "gpu_utilization", "mean", "mean", own=False),
    Column("gpu_sm_active", "gpu_sm_active", "mean", "mean", own=False),
    Column("gpu_peak_memory_bytes", "gpu_memory_used", "max", "mean", own=False),
    Column("gpu_power_watts", "gpu_power", "mean", "mean", own=False),
    Column(ENERGY_KEY, _ATTRIBUTED, "total", "sum"),
    *(Column(key, f"{name}_energy_attributed", "total", "sum") for key, name in PARTS.items() if key != ENERGY_KEY),
)

_OF_SCRIPT = frozenset({
    EPOCH_ENERGY, STEP_ENERGY, SAMPLE_ENERGY, SAMPLES_PER_JOULE, TOKENS_PER_JOULE, STEP_RATE, SAMPLE_RATE, TOKEN_RATE, FLOPS_RATE,
    DATA_WAIT, MFU, TIME_TO_TARGET, ENERGY_TO_TARGET,
})  # fmt: skip
_AMOUNTS = frozenset(column.key for column in COLUMNS if column.over == "sum") | {CO2_KEY}
_SUMMED = _AMOUNTS | {ENERGY_TO_TARGET}
_OF_WHOLE = _AMOUNTS | {"duration_seconds", "makespan_seconds", TOTAL_ENERGY}


def cost_key(currency: str) -> str:
    """Return the key of a cost with its unit: ``cost_eur``."""
    return _COST + currency.lower()


def is_summed(key: str) -> bool:
    """Return whether a workload has the sum of its runs' values, not the mean."""
    return key in _SUMMED or key.startswith(_COST)


def is_of_whole(key: str) -> bool:
    """Return whether a value grows with the run's time, so that a run that has not finished has a part of it."""
    return key in _OF_WHOLE or key.startswith(_COST)


def is_of_gpu(key: str) -> bool:
    """Return whether a run without GPUs has no such value."""
    return key.startswith("gpu_") or key == MFU


def is_of_parts(key: str) -> bool:
    """Return whether a value is an energy, or made of several: the runs that lack a part of it are named."""
    return key in (*PARTS, TOTAL_ENERGY, CO2_KEY) or key.startswith(_COST)


def is_of_script(key: str) -> bool:
    """Return whether a value depends on what the script tracks or logs."""
    return key in _OF_SCRIPT


def is_of_energy(key: str) -> bool:
    """Return whether a value depends on the run's energy method."""
    return key in (ENERGY_KEY, ENERGY_TO_TARGET, CO2_KEY) or is_of_total(key) or key.startswith(_COST)


def is_of_total(key: str) -> bool:
    """Return whether a value depends on which parts of a run's energy are known."""
    return key in (TOTAL_ENERGY, EPOCH_ENERGY, STEP_ENERGY, SAMPLE_ENERGY, SAMPLES_PER_JOULE, TOKENS_PER_JOULE)


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values of one run in a comparison.

    Attributes
    ----------
    values, scopes
        Value and scope by column.
    quantities
        Summaries in the chosen scope, by quantity.
    energy_method
        The exporter's method of attribution, or ``whole_gpu`` for all energy of GPUs that the run had to itself, idle
        included.
    coverage
        Share of the run's time in which its own processes were measured, 0 to 1.
    gpu_coverage
        Share of the run's time in which its GPU was measured; ``None`` without a GPU.
    incomplete
        Columns that lack a part: measured for less than `LEAST_COVERAGE` of the time, or by too few readings.
    """

    values: Mapping[str, float]
    scopes: Mapping[str, str]
    quantities: Mapping[str, Mapping[str, Any]]
    energy_method: str | None
    coverage: float
    gpu_coverage: float | None
    incomplete: frozenset[str] = frozenset()


def values_of(
    found: Iterable[Summary], facts: GpuFacts, duration: float | None, scope: str | None, *, electric: bool
) -> ColumnValues:
    """Return the values of one run from its summaries, which begin with the narrowest of each quantity.

    Parameters
    ----------
    duration
        Seconds.
    scope
        One of `SCOPES`; by default the narrowest that covers the run.
    electric
        Whether power and energy count; not if simulated.
    """
    found = [one for one in found if electric or one.quantity not in _ELECTRIC]
    chosen: dict[str, Summary] = {}
    for one in found:
        if scope in (None, one.scope):
            chosen.setdefault(one.quantity, one)
    values: dict[str, float] = {}
    scopes: dict[str, str] = {}
    incomplete: set[str] = set()
    method = facts.energy_method
    for column in COLUMNS:
        summary = chosen.get(column.quantity)
        if column.key == ENERGY_KEY and summary is None:
            # The energy of a shared GPU belongs to no run.
            summary, method = chosen.get("gpu_power"), WHOLE_GPU
            if summary is not None and scope is None and summary.scope != "instance":
                summary = None
        value = getattr(summary, column.statistic) if summary else None
        # A value of the host is not a value of the run, unless the host has a single GPU.
        if summary is None or value is None or (scope is None and summary.scope == "host" and column.own):
            continue
        values[column.key], scopes[column.key] = value, summary.scope
        if column.quantity not in _KEPT and (summary.coverage < LEAST_COVERAGE or summary.few):
            incomplete.add(column.key)
    return ColumnValues(
        values,
        scopes,
        {quantity: _quantity(one) for quantity, one in sorted(chosen.items())},
        method if ENERGY_KEY in values else None,
        _coverage(found),
        _gpu_coverage(found, facts, duration),
        frozenset(incomplete),
    )


def _coverage(found: Iterable[Summary]) -> float:
    return next((one.coverage for one in found if (one.quantity, one.scope) == ("cpu_usage", "process")), 0.0)


def _gpu_coverage(found: Iterable[Summary], facts: GpuFacts, duration: float | None) -> float | None:
    if not facts.gpus or not duration:
        return None
    return max(
        (one.coverage for one in found if one.quantity in _MEASURED and one.scope in ("instance", "device")),
        default=0.0,
    )


def _quantity(one: Summary) -> dict[str, Any]:
    names = ("unit", "scope", "n", "seconds", "mean", "min", "max", "p50", "p95", "total")
    return {name: getattr(one, name) for name in names}
