"""Sweep specification: a TOML file, or a YAML file of radT, checked in full."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.experiment import cells, parameters, radt_sweep, user_file
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.draws import DISTRIBUTIONS, Value, draw

__all__ = ["SweepFile"]

T = TypeVar("T")

_TABLES = ("experiment", "grid", "random")
_EXPERIMENT = (
    "id", "name", "file", "model", "data", "environment", "listeners", "params", "devices", "collocation", "together",
    "workload",
)  # fmt: skip
_RANDOM = ("count", "seed", *DISTRIBUTIONS)
_PARAMETER = re.compile(r"[A-Za-z_][\w.-]*")
_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class SweepFile:
    """Sweep: what varies, and what all rows share.

    Attributes
    ----------
    experiment, workload
        The experiment's id, and the number of its first workload.
    name
        What the rows' names begin with.
    script, model
        What is to be run: one of both is set.
    exporters, params
        As they stand in the cells of all rows.
    devices
        Dealt in turn to the rows of a workload.
    collocations, together
        Each is one more turn of the whole sweep: how runs share their devices, and how many share a workload.
    grid
        The values of each parameter, all of which meet all others.
    draws
        What was drawn at random for each parameter; as many values for each.
    """

    experiment: int
    workload: int
    name: str
    script: str
    model: str
    data: str
    environment: str
    listeners: str
    params: str
    devices: tuple[str, ...]
    collocations: tuple[str, ...]
    together: tuple[int, ...]
    grid: Mapping[str, Sequence[Value]]
    draws: Mapping[str, Sequence[Value]]

    @classmethod
    def read(cls, path: Path) -> SweepFile:
        """Read a specification.

        Raises
        ------
        BadRequest
            It cannot be read, or something in it cannot be meant; names the key.
        """
        parsed = radt_sweep.read(path) if path.suffix.lower() in radt_sweep.SUFFIXES else _parse(path)
        content = _Table(path, "", parsed, _TABLES)
        experiment = content.table("experiment", _EXPERIMENT)
        script, model = experiment.text("file"), experiment.text("model")
        if bool(script) == bool(model):
            what = "both a file and a model; leave one out" if script else "neither a file nor a model to run"
            content.refuse("experiment", f"there is {what}")
        if script and experiment.text("data"):
            experiment.refuse("data", "data is for a model's entry point, and this is a script: say it in params")
        grid, draws = _grid(content), _draws(content)
        if not grid and not draws:
            content.refuse("grid", "there is nothing to vary: give [grid] or [random] a parameter")
        fixed = parameters.named(experiment.parsed("params", cells.parse_params) or [])
        for name in (*grid, *draws):
            if name in fixed:
                experiment.refuse("params", f"{name!r} is fixed here, and varied as well")
            if name in grid and name in draws:
                content.refuse(f"grid.{name}", "it is drawn at random as well")
        return cls(
            experiment=experiment.number("id", None, 0, 999_999_999),
            workload=experiment.number("workload", 1, 0, 999_999_999),
            name=experiment.text("name") or model or Path(script).stem,
            script=script,
            model=model,
            data=experiment.text("data"),
            environment=str(experiment.parsed("environment", Environment.parse) or "-"),
            listeners=_listeners(experiment),
            params=experiment.text("params"),
            devices=experiment.words("devices", cells.parse_devices),
            collocations=experiment.words("collocation", Collocation.parse) or ("-",),
            together=_together(experiment),
            grid=grid,
            draws=draws,
        )


class _Table:
    """A table of the file, whose keys are known."""

    def __init__(self, path: Path, name: str, content: dict[str, Any], known: Iterable[str]) -> None:
        self.path, self.name, self.content = path, name, content
        choices = tuple(known)
        for key in content:
            if choices and key not in choices:
                self.refuse(key, f"there is no such key{did_you_mean(key, choices)}")

    def refuse(self, key: str, message: str) -> NoReturn:
        where = f"{self.name}.{key}" if self.name else key
        raise BadRequest(f"{where}: {message}", file=self.path)

    def table(self, key: str, known: Iterable[str] = ()) -> _Table:
        found = self.content.get(key, {})
        if not isinstance(found, dict):
            self.refuse(key, f"this is a table, [{f'{self.name}.' if self.name else ''}{key}], not {found!r}")
        return _Table(self.path, f"{self.name}.{key}" if self.name else key, found, known)

    def text(self, key: str) -> str:
        found = self.content.get(key, "")
        if not isinstance(found, str):
            self.refuse(key, f"this is a text in quotes, not {found!r}")
        if any(letter in found for letter in "\r\n\0"):
            self.refuse(key, "this is one line")
        return found.strip()

    def number(self, key: str, default: int | None, least: int, most: int) -> int:
        found = self.content.get(key, default)
        if found is None:
            self.refuse(key, "this is required")
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            self.refuse(key, f"this is a whole number from {least} to {most}, not {found!r}")
        return found

    def parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        text = self.text(key)
        try:
            return parse(text) if text else None
        except BadRequest as error:
            self.refuse(key, str(error))

    def words(self, key: str, parse: Callable[[str], object]) -> tuple[str, ...]:
        """Return one text, or each of a list of them, as they would stand in a cell."""
        found = self.content.get(key, [])
        words = found if isinstance(found, list) else [found]
        for word in words:
            if isinstance(word, bool) or not isinstance(word, str | int):
                self.refuse(key, f"this is a text in quotes, or a list of them, not {word!r}")
            try:
                parse(str(word))
            except BadRequest as error:
                self.refuse(key, str(error))
        return tuple(str(word) for word in words)

    def values(self, key: str) -> list[Value]:
        """Return the values that a parameter is given."""
        if not _PARAMETER.fullmatch(key):
            self.refuse(key, "this is no parameter's name: write it without dashes before it")
        found = self.content[key]
        if isinstance(found, dict):
            self.refuse(key, "this is a list of values; a name with a dot in it stands in quotes")
        if not isinstance(found, list) or not found:
            self.refuse(key, f"this is a list of values, not {found!r}")
        for value in found:
            if not isinstance(value, bool | int | float | str):
                self.refuse(key, f"a value is a number, a text, true or false, not {value!r}")
            if isinstance(value, float) and not math.isfinite(value):
                self.refuse(key, f"{value} is no number to run with")
            if isinstance(value, str) and any(letter in value for letter in "\r\n\0"):
                self.refuse(key, f"{value!r} is not one line")
        return found


def _parse(path: Path) -> dict[str, Any]:
    text = user_file.read_text(path)
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if place := _PLACE.fullmatch(str(error)):
            what, line, column = place.groups()
            raise BadRequest(f"not valid TOML: {what}", file=path, line=int(line), column=int(column)) from error
        raise BadRequest(f"not valid TOML: {error}", file=path) from error


def _grid(content: _Table) -> dict[str, Sequence[Value]]:
    table = content.table("grid")
    grid: dict[str, Sequence[Value]] = {}
    for name in table.content:
        values = grid[name] = table.values(name)
        if len({(type(value), value) for value in values}) < len(values):
            table.refuse(name, "a value is there twice")
    return grid


def _draws(content: _Table) -> dict[str, Sequence[Value]]:
    table = content.table("random", _RANDOM)
    drawn: dict[str, Sequence[Value]] = {}
    if not table.content:
        return drawn
    count = table.number("count", None, 1, 100_000)
    seed = table.number("seed", None, 0, 2**63 - 1)
    for distribution in DISTRIBUTIONS:
        named = table.table(distribution)
        for name in named.content:
            values = named.values(name)
            if name in drawn:
                named.refuse(name, "it is drawn from another distribution as well")
            try:
                drawn[name] = draw(distribution, values, name=name, seed=seed, count=count)
            except (ValueError, OverflowError) as error:
                named.refuse(name, str(error))
    if not drawn:
        content.refuse("random", f"there is nothing to draw: give a parameter to one of {', '.join(DISTRIBUTIONS)}")
    return drawn


def _listeners(experiment: _Table) -> str:
    words = experiment.words("listeners", cells.parse_listeners)
    return "+".join(words)


def _together(experiment: _Table) -> tuple[int, ...]:
    found = experiment.content.get("together", 1)
    numbers = found if isinstance(found, list) else [found]
    for number in numbers or [found]:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 1000:
            experiment.refuse("together", f"this is how many rows share a workload, 1 to 1000, not {number!r}")
    return tuple(numbers)
