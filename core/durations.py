"""Durations: ``500 ms``, ``10 s``, ``20 min``, ``1.5 h``, ``7 d``."""

from __future__ import annotations

import re
from datetime import timedelta

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["parse", "words"]

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse(text: str, unit: str = "") -> timedelta:
    """Return the duration of a text.

    Parameters
    ----------
    unit
        Unit of a bare number, which is refused by default.

    Raises
    ------
    BadRequest
        The text is not a duration, or has an unknown unit.
    """
    if (found := _DURATION.fullmatch(text.strip())) is None:
        raise BadRequest(f"{text!r} is not a duration: write it like 10 s, 20 min or 1.5 h")
    number, unit = found[1], found[2] or unit
    if unit not in _UNITS:
        unknown = f"there is no unit {unit!r}" if unit else "it has no unit"
        raise BadRequest(f"{text!r} is not a duration: {unknown}{did_you_mean(unit, _UNITS)}")
    return timedelta(seconds=float(number) * _UNITS[unit])


def words(duration: timedelta) -> str:
    """Return a duration as text, in the largest unit that divides it: ``20 min``."""
    seconds = duration.total_seconds()
    unit = next((unit for unit in ("d", "h", "min", "s") if seconds and seconds % _UNITS[unit] == 0), None)
    if unit is None or seconds < 120:
        unit = "s" if seconds >= 1 or not seconds else "ms"
    return f"{seconds / _UNITS[unit]:g} {unit}"
