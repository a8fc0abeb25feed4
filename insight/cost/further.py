"""Further columns of a comparison: costs, the way to a target, and utilization by a configured peak."""

from __future__ import annotations

from hypergauge.core.config.settings import Settings
from hypergauge.insight.comparison.entry import Further
from hypergauge.insight.comparison.throughput import peak_of_unknown
from hypergauge.insight.cost.cost import costs
from hypergauge.insight.cost.target import Target, towards
from hypergauge.insight.cost.tariff import Tariff

__all__ = ["further"]


def further(settings: Settings, target: str | None, *, simulated: bool = False) -> list[Further]:
    """Return the further columns of a comparison: costs, the target, and utilization, where the settings say so.

    Raises
    ------
    BadRequest
        The target or the tariff file is invalid.
    """
    columns: list[Further] = []
    if settings.peak_flops is not None:
        columns.append(peak_of_unknown(settings.peak_flops))
    if target is not None:
        columns.append(towards(Target.parse(target), simulated=simulated))
    if settings.tariff is not None:
        columns.append(costs(Tariff.load(settings.tariff), simulated=simulated))
    return columns
