"""Conditions of ``--fail-on``: ``step_time>+3%``, ``throughput<-5%``, ``gpu_memory_used>20GiB``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["Condition"]

_FORM = re.compile(
    r"(?P<metric>[^<>]+?)\s*(?P<direction>[<>])\s*"
    r"(?:(?P<change>[+-]\d+(?:\.\d+)?)\s*%|(?P<below_zero>-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<bound>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z%]*))"
)
# Unit as written: unit of the values, and factor.
_UNITS = {
    "%": ("ratio", 0.01),
    "B": ("bytes", 1.0), "KiB": ("bytes", 2.0**10), "MiB": ("bytes", 2.0**20), "GiB": ("bytes", 2.0**30), "TiB": ("bytes", 2.0**40),
    "ms": ("seconds", 0.001), "s": ("seconds", 1.0), "min": ("seconds", 60.0), "h": ("seconds", 3600.0),
    "W": ("watts", 1.0), "kW": ("watts", 1000.0),
    "J": ("joules", 1.0), "kJ": ("joules", 1000.0), "Wh": ("joules", 3600.0), "kWh": ("joules", 3.6e6),
    "cores": ("cores", 1.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit of a value: a change against the baseline, or a bound.

    Attributes
    ----------
    text
        As written.
    metric
        Name of the value.
    rises
        Whether it is an upper limit (``>``).
    change
        Relative threshold: 0.03 is 3 % more. ``None`` for a bound.
    bound
        In the value's unit.
    unit
        Unit of the bound; ``None`` for a bare number.
    """

    text: str
    metric: str
    rises: bool
    change: float | None = None
    bound: float | None = None
    unit: str | None = None

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition.

        Raises
        ------
        BadRequest
            The condition is malformed, its unit is unknown, or the decrease exceeds 100 %.
        """
        if (form := _FORM.fullmatch(text.strip())) is None:
            raise BadRequest(
                f"--fail-on {text!r} is not a condition: write a change with its sign, such as 'step_time>+3%' or "
                f"'throughput<-5%', or a bound without one, such as 'gpu_memory_used>20GiB'"
            )
        metric, rises = form["metric"], form["direction"] == ">"
        if form["change"] is not None:
            change = float(form["change"]) / 100
            if change <= -1:
                raise BadRequest(f"--fail-on {text!r}: a fall by {form['change'][1:]} % is impossible")
            return cls(text, metric, rises, change=change)
        unit, factor = None, 1.0
        if form["unit"]:
            if form["unit"] not in _UNITS:
                raise BadRequest(
                    f"--fail-on {text!r}: unknown unit {form['unit']!r}{did_you_mean(form['unit'], _UNITS)}"
                )
            unit, factor = _UNITS[form["unit"]]
        return cls(text, metric, rises, bound=float(form["bound"] or form["below_zero"]) * factor, unit=unit)

    def check_sign(self, values: Iterable[float]) -> None:
        """Refuse a bound below 0 if no value is: the percent sign of a change was forgotten.

        Raises
        ------
        BadRequest
            The bound is below 0, and none of the values is.
        """
        if self.bound is not None and self.bound < 0 and all(value >= 0 for value in values):
            raise BadRequest(
                f"--fail-on {self.text!r}: {self.metric} is never below 0; for a change write '{self.text.strip()}%'"
            )

    def check_unit(self, unit: str) -> None:
        """Refuse a bound in another unit.

        Raises
        ------
        BadRequest
            The bound has another unit than `unit`.
        """
        if self.unit in (None, unit):
            return
        if self.unit == "ratio":
            share = self.text.rpartition(">" if self.rises else "<")[2].strip()
            meant = f"{self.metric}{'>+' if self.rises else '<-'}{share}"
            raise BadRequest(
                f"--fail-on {self.text!r}: {self.metric} is in {unit or 'no unit'}; for a change write {meant!r}"
            )
        raise BadRequest(f"--fail-on {self.text!r}: {self.metric} is in {unit or 'no unit'}, not in {self.unit}")
