"""Throughput of compared runs: samples, tokens, steps and model FLOPs per second, by tracked steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypergauge.insight.comparison.columns import DATA_WAIT, FLOPS_RATE, MFU, SAMPLE_RATE, STEP_RATE, TOKEN_RATE
from hypergauge.insight.comparison.entry import Entry, Further, Missing
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.queries.throughput import Peak, Throughput, peaks
from hypergauge.sql.server.database import Connection

__all__ = ["peak_of_unknown", "with_throughput"]

_NO_PEAK = "no_peak_flops"


def with_throughput(
    connection: Connection, entries: Sequence[Entry], found: Mapping[str, Throughput], *, simulated: bool
) -> list[Entry]:
    """Return the entries of runs with their throughput.

    Model FLOPs utilization is by the dense FP16 and BF16 peak of the run's devices. That of a shared GPU is by the whole GPU.

    Parameters
    ----------
    found
        By run id.
    simulated
        Whether the utilization of simulated GPUs counts.
    """
    entries = [_with_rates(entry, found.get(entry.runs[0].run_id)) for entry in entries]
    known = peaks(connection, [entry.runs[0].run_id for entry in entries if FLOPS_RATE in entry.values])
    return [
        _with_mfu(entry, one, simulated=simulated) if (one := known.get(entry.runs[0].run_id)) else entry
        for entry in entries
    ]


def peak_of_unknown(flops: float) -> Further:
    """Return a function that adds the utilization of devices that no data sheet names, by their peak in FLOPS."""

    def add(connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
        without = [entry.runs[0].run_id for entry in entries if _lacks_peak(entry)]
        known = peaks(connection, without, flops)
        return [
            _with_mfu(entry, known[entry.runs[0].run_id], simulated=True) if _lacks_peak(entry) else entry
            for entry in entries
        ]

    return add


def _with_rates(entry: Entry, one: Throughput | None) -> Entry:
    if one is None:
        return entry
    rates = {
        STEP_RATE: one.steps_per_second,
        SAMPLE_RATE: one.samples_per_second,
        TOKEN_RATE: one.tokens_per_second,
        FLOPS_RATE: one.flops_per_second,
        DATA_WAIT: one.data_wait_share,
    }
    return replace(entry, values={**entry.values, **{key: rate for key, rate in rates.items() if rate is not None}})


def _with_mfu(entry: Entry, peak: Peak, *, simulated: bool) -> Entry:
    missing = tuple(one for one in entry.missing if one.metric != MFU)
    # A run on a host with simulated GPUs may use none of them.
    if entry.simulated and not simulated and (peak.flops or peak.unknown):
        return replace(entry, missing=(*missing, Missing(MFU, entry.label, Reason("gpus_simulated"))))
    if peak.flops is None:
        reason = Reason(_NO_PEAK, {"model": peak.unknown})
        return replace(entry, missing=(*missing, Missing(MFU, entry.label, reason)))
    # Other runs use a part of the same peak.
    shared = (
        {MFU: "device"} if "device" in (entry.scopes.get("gpu_utilization"), entry.scopes.get("gpu_sm_active")) else {}
    )
    values = {**entry.values, MFU: entry.values[FLOPS_RATE] / peak.flops}
    return replace(entry, values=values, missing=missing, scopes={**entry.scopes, **shared})


def _lacks_peak(entry: Entry) -> bool:
    return any(one.metric == MFU and one.reason.code == _NO_PEAK for one in entry.missing)
