"""Sweep file: TOML, or radT's YAML."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from hypergauge.core.config.model import Refused, Section, validated
from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment import cells, parameters, radt_sweep, user_file
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.draws import DISTRIBUTIONS, Value, draw

__all__ = ["SweepFile"]

_PARAMETER = re.compile(r"[^\W\d][\w.-]*")
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")
_MOST = 999_999_999


@dataclass(frozen=True, slots=True)
class SweepFile:
    """Sweep: varied parameters, and cells that all rows share.

    Attributes
    ----------
    experiment, workload
        Experiment id, and number of the first workload.
    name
        Prefix of the rows' names.
    script, model
        Script or model to run: exactly one is set.
    listeners, params
        Cells of all rows.
    devices
        Devices, assigned round-robin to the rows of a workload.
    collocations, together
        Collocations, and workload sizes in rows; each adds one pass over all points.
    grid
        Values of each parameter; the rows have every combination.
    draws
        Random values of each parameter, equally many for each.
    pairs
        Share of all pairs of points that run side by side, and its seed; ``None`` for no pairs.
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
    pairs: tuple[float, int] | None = None

    @classmethod
    def read(cls, path: Path) -> SweepFile:
        """Read a sweep file.

        Raises
        ------
        BadRequest
            The file cannot be read, or has errors; the message names their keys.
        """
        parsed = radt_sweep.read(path) if path.suffix.lower() in radt_sweep.SUFFIXES else _parse(path)
        found = validated(_File, _Sweep(path, parsed))
        one = found.experiment
        return cls(
            experiment=one.id,
            workload=one.workload,
            name=one.name or one.model or Path(one.file).stem,
            script=one.file,
            model=one.model,
            data=one.data,
            environment=str(Environment.parse(one.environment)) if one.environment else "-",
            listeners="+".join(one.listeners),
            params=one.params,
            devices=one.devices,
            collocations=one.collocation or ("-",),
            together=one.together,
            grid=found.grid,
            draws=found.random.drawn() if found.random is not None else {},
            pairs=(found.pairs.share, found.pairs.seed) if found.pairs is not None else None,
        )


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Content of a sweep file. Errors name the key, because the TOML parser keeps no lines."""

    UNKNOWN: ClassVar[str] = "unknown key"

    path: Path
    content: Mapping[str, Any]

    def problem(self, where: Sequence[str | int], _: object, message: str, *, at_key: bool = False) -> BadRequest:
        """Return the error for the key at `where`."""
        del at_key
        parts = [str(part) for part in where if part != "[key]" and not isinstance(part, int)]
        return BadRequest(f"{'.'.join(parts)}: {message}" if parts else message, file=self.path)

    @staticmethod
    def expected(_: str, what: str) -> str:
        """Return the message for a value of the wrong type."""
        return f"expected {what}"


def _line(text: str) -> str:
    if any(letter in text for letter in "\r\n\0"):
        raise ValueError("must be one line")
    return text.strip()


def _parsed(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator that checks each text with the parser of its cell."""

    def check(found: Any) -> Any:
        for text in (found,) if isinstance(found, str) else found:
            try:
                if text or not isinstance(found, str):
                    parse(text)
            except BadRequest as error:
                raise ValueError(str(error)) from None
        return found

    return AfterValidator(check)


def _words(found: Any) -> Any:
    words = found if isinstance(found, list) else [found]
    for word in words:
        if isinstance(word, bool) or not isinstance(word, str | int):
            raise ValueError(f"must be a text in quotes or a list of texts, not {word!r}")
    return tuple(str(word) for word in words)


def _together(found: Any) -> Any:
    numbers = found if isinstance(found, list) else [found]
    for number in numbers or [found]:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 1000:
            raise ValueError(f"must be the number of rows that share a workload, 1 to 1000, not {number!r}")
    return tuple(numbers)


def _parameter(name: str) -> str:
    if not _PARAMETER.fullmatch(name):
        raise ValueError("not a parameter's name: write it without leading dashes")
    return name


def _values(found: Any) -> Any:
    """Validate the values of a parameter."""
    if isinstance(found, dict):
        raise ValueError("must be a list of values; quote a name that contains a dot")
    if not isinstance(found, list) or not found:
        raise ValueError(f"must be a list of values, not {found!r}")
    for value in found:
        if not isinstance(value, bool | int | float | str):
            raise ValueError(f"a value must be a number, a text, true or false, not {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        if isinstance(value, str) and any(letter in value for letter in "\r\n\0"):
            raise ValueError(f"{value!r} is not one line")
    return found


def _different(values: Sequence[Value]) -> Sequence[Value]:
    if len({(type(value), value) for value in values}) < len(values):
        raise ValueError("a value occurs twice")
    return values


def _whole(least: int, most: int) -> Any:
    return Field(ge=least, le=most, description=f"a whole number from {least} to {most}")


_Line = Annotated[str, Field(description="a text in quotes"), AfterValidator(_line)]
_Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
_Name = Annotated[str, AfterValidator(_parameter)]
_Values = Annotated[list[Any], BeforeValidator(_values)]


class _Experiment(Section):
    id: Annotated[int, Strict(), _whole(0, _MOST)]
    workload: Annotated[int, Strict(), _whole(0, _MOST)] = 1
    name: _Line = ""
    file: _Line = ""
    model: _Line = ""
    data: _Line = ""
    environment: Annotated[_Line, _parsed(Environment.parse)] = ""
    params: Annotated[_Line, _parsed(cells.parse_params)] = ""
    listeners: Annotated[_Words, _parsed(cells.parse_listeners)] = ()
    devices: Annotated[_Words, _parsed(cells.parse_devices)] = ()
    collocation: Annotated[_Words, _parsed(Collocation.parse)] = ()
    together: Annotated[tuple[int, ...], BeforeValidator(_together)] = (1,)

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        if bool(self.file) == bool(self.model):
            what = "both a file and a model; leave one out" if self.file else "neither a file nor a model to run"
            raise Refused(None, f"there is {what}")
        if self.file and self.data:
            raise Refused("data", "data is for a model's entry point, but this is a script: use params")
        return self


class _Random(Section):
    count: Annotated[int, Strict(), _whole(1, 100_000)]
    seed: Annotated[int, Strict(), _whole(0, 2**63 - 1)]
    uniform: dict[_Name, _Values] = Field(default_factory=dict)
    loguniform: dict[_Name, _Values] = Field(default_factory=dict)
    int_: dict[_Name, _Values] = Field(default_factory=dict, alias="int")
    choice: dict[_Name, _Values] = Field(default_factory=dict)

    def drawn(self) -> dict[str, Sequence[Value]]:
        """Return the drawn values of each parameter."""
        drawn: dict[str, Sequence[Value]] = {}
        for distribution in DISTRIBUTIONS:
            for name, values in getattr(self, "int_" if distribution == "int" else distribution).items():
                if name in drawn:
                    raise Refused(distribution, f"{name} is drawn from another distribution as well")
                try:
                    drawn[name] = draw(distribution, values, name=name, seed=self.seed, count=self.count)
                except (ValueError, OverflowError) as error:
                    raise Refused(distribution, f"{name}: {error}") from None
        return drawn

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if not self.drawn():
            raise Refused(None, f"nothing to draw: give a parameter to one of {', '.join(DISTRIBUTIONS)}")
        return self


class _Pairs(Section):
    share: Annotated[float, Field(gt=0, le=1, description="a number above 0, at most 1")] = 1.0
    seed: Annotated[int, Strict(), _whole(0, 2**63 - 1)] = 0


class _File(Section):
    experiment: _Experiment
    grid: dict[_Name, Annotated[_Values, AfterValidator(_different)]] = Field(default_factory=dict)
    random: _Random | None = None
    pairs: _Pairs | None = None

    @model_validator(mode="after")
    def _varied(self) -> Self:
        draws = self.random.drawn() if self.random is not None else {}
        if not self.grid and not draws:
            raise Refused(None, "nothing to vary: add a parameter to [grid] or [random]")
        fixed = parameters.named(cells.parse_params(self.experiment.params))
        for name in (*self.grid, *draws):
            if name in fixed:
                raise Refused("experiment", f"params: {name!r} is fixed here, and varied as well")
            if name in self.grid and name in draws:
                raise Refused("grid", f"{name} is drawn at random as well")
        return self


def _parse(path: Path) -> dict[str, Any]:
    text = user_file.read_text(path)
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if position := _POSITION.fullmatch(str(error)):
            what, line, column = position.groups()
            raise BadRequest(f"not valid TOML: {what}", file=path, line=int(line), column=int(column)) from error
        raise BadRequest(f"not valid TOML: {error}", file=path) from error
