"""Further columns of a comparison: costs, and the way to a target."""

from __future__ import annotations

from hypergauge.core.config.settings import Settings
from hypergauge.insight.comparison.entry import Further
from hypergauge.insight.cost.cost import costs
from hypergauge.insight.cost.target import Target, towards
from hypergauge.insight.cost.tariff import Tariff

__all__ = ["further"]


def further(settings: Settings, target: str | None, *, simulated: bool = False) -> list[Further]:
    """Return the further columns of a comparison: costs if there is a tariff, and the target if there is one.

    Raises
    ------
    BadRequest
        The target or the tariff file is invalid.
    """
    columns: list[Further] = []
    if target is not None:
        columns.append(towards(Target.parse(target), simulated=simulated))
    if settings.tariff is not None:
        columns.append(costs(Tariff.load(settings.tariff), simulated=simulated))
    return columns
