"""Cost of runs, and the carbon dioxide of their electricity, by a tariff."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypergauge.insight.comparison.columns import CO2_KEY, ENERGY_KEY, cost_key
from hypergauge.insight.comparison.entry import Entry, Further, Missing
from hypergauge.insight.cost.tariff import Rate, Tariff
from hypergauge.sql.queries.costs import Hours, hours, power_by_minute
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.server.database import Connection

__all__ = ["costs"]

_JOULES = 3.6e6  # per kilowatt hour
_SIMULATED = Reason("gpus_simulated")
_NO_ENERGY = Reason("no_own_energy")
_NO_CURVE = Reason("no_energy_curve")

Curve = Sequence[tuple[datetime, float]]


class _Unknown(Exception):
    """Unknown input of a value."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.code)
        self.reason = reason


def costs(tariff: Tariff, *, simulated: bool = False) -> Further:
    """Return a function that adds cost and carbon dioxide to entries.

    Electricity is the run's energy in the comparison, times the tariff's PUE. Where a price depends on the time, energy is
    priced by the minute. Runs that use the same hardware at the same time pay equal parts of its price.

    Parameters
    ----------
    simulated
        Whether simulated GPUs have a cost.
    """

    def add(connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
        spans = {entry.runs[0].run_id: entry.span for entry in entries}
        curves = _curves(connection, entries) if any(map(tariff.varies, tariff.rates)) else {}
        had: dict[str, list[Hours]] = {}
        for one in hours(connection, spans) if tariff.gpu_hours or tariff.host_hours else ():
            had.setdefault(one.run_id, []).append(one)
        return [
            _priced(_Bill(tariff, entry, curves.get(run, ()), had.get(run, ()), not simulated))
            for run, entry in zip(spans, entries, strict=True)
        ]

    return add


def _curves(connection: Connection, entries: Sequence[Entry]) -> Mapping[str, Curve]:
    """Return the power by minute and run, from the source of each run's energy."""
    sources: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if ENERGY_KEY in entry.values:
            quantity = "gpu_power" if entry.has_idle_energy else "gpu_energy_attributed"
            sources.setdefault((quantity, entry.scopes[ENERGY_KEY]), []).append(entry.runs[0].run_id)
    return {
        run: curve
        for (quantity, scope), runs in sources.items()
        for run, curve in power_by_minute(connection, runs, quantity, scope).items()
    }


def _priced(bill: _Bill) -> Entry:
    entry = bill.entry
    values, missing = dict(entry.values), list(entry.missing)
    wanted = {CO2_KEY: bill.carbon} if bill.tariff.knows("carbon_g_per_kwh") else {}
    if bill.tariff.knows("price_per_kwh") or bill.tariff.gpu_hours or bill.tariff.host_hours:
        wanted[cost_key(bill.tariff.currency)] = bill.cost
    for key, compute in wanted.items():
        try:
            values[key] = compute()
        except _Unknown as unknown:
            missing.append(Missing(key, entry.label, unknown.reason))
    return replace(entry, values=values, missing=tuple(missing))


@dataclass(frozen=True, slots=True)
class _Bill:
    """Inputs of one run's cost."""

    tariff: Tariff
    entry: Entry
    curve: Curve
    had: Sequence[Hours]
    real_only: bool

    def carbon(self) -> float:
        """Return grams of carbon dioxide."""
        return self._electricity("carbon_g_per_kwh")

    def cost(self) -> float:
        """Return the cost in the tariff's currency: the sum over all prices of the tariff."""
        parts = [self._hardware()]
        if self.tariff.knows("price_per_kwh"):
            parts.append(self._electricity("price_per_kwh"))
        return sum(parts)

    def _electricity(self, rate: Rate) -> float:
        if self.entry.simulated and self.real_only:
            raise _Unknown(_SIMULATED)
        if (joules := self.entry.values.get(ENERGY_KEY)) is None:
            raise _Unknown(next((one.reason for one in self.entry.missing if one.metric == ENERGY_KEY), _NO_ENERGY))
        return joules / _JOULES * self.tariff.pue * self._mean(rate) if joules else 0.0

    def _mean(self, rate: Rate) -> float:
        """Return the mean price or carbon intensity of a kilowatt hour, weighted with the run's energy over time."""
        if not self.tariff.varies(rate):
            return self.tariff.rates[rate]
        parts = list(self._minutes())
        total = sum(joules for _, joules in parts)
        if total <= 0:
            raise _Unknown(_NO_CURVE)
        return sum(self.tariff.at(rate, moment) * joules for moment, joules in parts) / total

    def _minutes(self) -> Iterator[tuple[datetime, float]]:
        """Yield the start and energy of each minute of the clock, with the first and last cut to the run."""
        spans = (self.entry.span,) if self.entry.counted_times is None else self.entry.counted_times
        for (at, watts), (start, stop) in itertools.product(self.curve, spans):
            begin, end = max(at, start), min(_next_minute(at), stop)
            if begin < end:
                yield begin, watts * (end - begin).total_seconds()

    def _hardware(self) -> float:
        if not (self.tariff.gpu_hours or self.tariff.host_hours):
            return 0.0
        if self.entry.simulated and self.real_only and self.tariff.gpu_hours:
            raise _Unknown(_SIMULATED)
        return sum(one.hours * self._hourly(one) for one in self.had)

    def _hourly(self, one: Hours) -> float:
        prices = self.tariff.gpu_hours if one.kind == "gpu" else self.tariff.host_hours
        if not prices:
            return 0.0
        price = self.tariff.gpu_hour(one.name or "") if one.kind == "gpu" else prices.get(one.name or "")
        if price is None:
            about = {"file": self.tariff.file.name, "kind": one.kind, "name": one.name, "priced": list(prices)}
            raise _Unknown(Reason("no_price", about))
        return price


def _next_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0) + timedelta(minutes=1)
