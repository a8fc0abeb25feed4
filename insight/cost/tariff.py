"""Tariff file: prices of electricity and hardware, and carbon intensity."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["Period", "Tariff"]

Rate = Literal["price_per_kwh", "carbon_g_per_kwh"]

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")
_RATES: tuple[Rate, Rate] = ("price_per_kwh", "carbon_g_per_kwh")
_KEYS = ("currency", "time_zone", "pue", *_RATES, "times", "gpu_hour", "host_hour")
_PERIOD_KEYS = ("from", "to", "days", *_RATES)


@dataclass(frozen=True, slots=True)
class Period:
    """Times with prices or carbon intensities of their own.

    Attributes
    ----------
    start, stop
        Minutes of the day; a period whose stop is not after its start extends over midnight.
    days
        Days on which it starts, 0 for Monday.
    rates
        Its prices and carbon intensities; others come from later periods or the tariff.
    """

    start: int
    stop: int
    days: frozenset[int]
    rates: Mapping[Rate, float]

    def holds(self, local: datetime) -> bool:
        """Return whether a time in the tariff's time zone is in the period."""
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.stop:
            return self.start <= minute < self.stop and day in self.days
        return (minute >= self.start and day in self.days) or (minute < self.stop and (day - 1) % 7 in self.days)


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices of a kilowatt hour, of an hour of a GPU and of an hour of a host.

    Attributes
    ----------
    pue
        Power usage effectiveness: kilowatt hours of the data center per kilowatt hour of its hardware.
    rates
        Price and grams of carbon dioxide per kilowatt hour outside all periods; a missing one is unknown.
    periods
        Periods in order; the first that matches counts.
    gpu_hours, host_hours
        Prices per hour, by a part of the GPU's model, and by host.
    """

    file: Path
    currency: str
    zone: tzinfo
    pue: float
    rates: Mapping[Rate, float]
    periods: tuple[Period, ...]
    gpu_hours: Mapping[str, float]
    host_hours: Mapping[str, float]

    @classmethod
    def load(cls, file: Path) -> Tariff:
        """Read a tariff file.

        Raises
        ------
        BadRequest
            The file is unreadable or invalid.
        """
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadRequest(f"the tariff cannot be read: {error.strerror}", file=file) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"not valid TOML: {error}", file=file) from error
        return _Reader(file).tariff(content)

    def knows(self, rate: Rate) -> bool:
        """Return whether the tariff has this price or carbon intensity."""
        return rate in self.rates

    def varies(self, rate: Rate) -> bool:
        """Return whether this price or carbon intensity depends on the time."""
        return any(rate in period.rates for period in self.periods)

    def at(self, rate: Rate, moment: datetime) -> float:
        """Return this price or carbon intensity of a kilowatt hour at a time."""
        local = moment.astimezone(self.zone)
        found = (one.rates[rate] for one in self.periods if rate in one.rates and one.holds(local))
        return next(found, self.rates[rate])

    def gpu_hour(self, model: str) -> float | None:
        """Return the price of a GPU's hour, by the longest name that its model contains."""
        words = f" {' '.join(re.split(r'[^a-z0-9.]+', model.casefold()))} "
        names = (name for name in self.gpu_hours if f" {' '.join(re.split(r'[^a-z0-9.]+', name.casefold()))} " in words)
        longest = max(names, key=len, default=None)
        return None if longest is None else self.gpu_hours[longest]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Parser of a tariff's content, with errors that name the key."""

    file: Path

    def tariff(self, content: Mapping[str, Any]) -> Tariff:
        self._only(content, _KEYS, "")
        tariff = Tariff(
            file=self.file,
            currency=self._text(content, "currency", "EUR"),
            zone=self._zone(self._text(content, "time_zone", "UTC")),
            pue=self._number(content, "pue", "", 1.0),
            rates=self._rates(content, ""),
            periods=tuple(self._periods(content.get("times", []))),
            gpu_hours=self._prices(content, "gpu_hour"),
            host_hours=self._prices(content, "host_hour"),
        )
        if tariff.pue < 1:
            raise self._wrong(f"pue is {tariff.pue:g}, but a data center draws no less than its hardware: at least 1")
        for rate in _RATES:
            if tariff.varies(rate) and not tariff.knows(rate):
                raise self._wrong(f"[[times]] has {rate}; write its value for all other times at the top, as {rate}")
        if not (tariff.rates or tariff.gpu_hours or tariff.host_hours):
            raise self._wrong(f"there is no price: write {' or '.join(_RATES)}, [gpu_hour] or [host_hour]")
        return tariff

    def _periods(self, rows: object) -> Iterable[Period]:
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._wrong("times must be an array of tables: [[times]]")
        for number, row in enumerate(rows, 1):
            where = f"[[times]] {number}: "
            self._only(row, _PERIOD_KEYS, where)
            if ("from" in row) != ("to" in row):
                raise self._wrong(f"{where}there is a {'from' if 'from' in row else 'to'}, but not both from and to")
            if not (rates := self._rates(row, where)):
                raise self._wrong(f"{where}there is neither {' nor '.join(_RATES)}")
            start, stop = (self._minutes(row.get(key, "00:00"), where + key) for key in ("from", "to"))
            yield Period(start % _DAY, stop, self._days(row.get("days", list(_DAYS)), where), rates)

    def _minutes(self, text: object, where: str) -> int:
        found = _CLOCK.fullmatch(text) if isinstance(text, str) else None
        minutes = int(found[1]) * 60 + int(found[2]) if found else _DAY + 1
        if minutes > _DAY:
            raise self._wrong(f'{where} is {text!r}, but must be a time of the day such as "22:00"')
        return minutes

    def _days(self, names: object, where: str) -> frozenset[int]:
        if not isinstance(names, list) or not names:
            raise self._wrong(f'{where}days is {names!r}, but must be a list such as ["sat", "sun"]')
        for name in names:
            if name not in _DAYS:
                raise self._wrong(f"{where}there is no day {name!r}{did_you_mean(str(name), _DAYS)}")
        return frozenset(map(_DAYS.index, names))

    def _rates(self, content: Mapping[str, Any], where: str) -> dict[Rate, float]:
        return {name: self._number(content, name, where, 0.0) for name in _RATES if name in content}

    def _prices(self, content: Mapping[str, Any], section: str) -> dict[str, float]:
        prices = content.get(section, {})
        if not isinstance(prices, dict):
            raise self._wrong(f"{section} is not a section: write [{section}], and below it a price for each name")
        return {name: self._number(prices, name, f"[{section}] ", 0.0) for name in prices}

    def _number(self, content: Mapping[str, Any], key: str, where: str, default: float) -> float:
        value = content.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
            raise self._wrong(f"{where}{key} is {value!r}, but must be a number of at least 0")
        return float(value)

    def _text(self, content: Mapping[str, Any], key: str, default: str) -> str:
        value = content.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(f"{key} is {value!r}, but must be a string")
        return value

    def _zone(self, name: str) -> tzinfo:
        try:
            return UTC if name == "UTC" else ZoneInfo(name)  # other zones need the system's database or tzdata
        except (ZoneInfoNotFoundError, ValueError):
            near = did_you_mean(name, sorted(available_timezones())) if name else ""
            raise self._wrong(f"there is no time zone {name!r}{near}") from None

    def _only(self, content: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        for key in content:
            if key not in known:
                raise self._wrong(f"{where}unknown key {key!r}{did_you_mean(key, known)}")

    def _wrong(self, message: str) -> BadRequest:
        return BadRequest(message, file=self.file)
