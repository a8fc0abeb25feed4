"""Rule: a file with a header that describes it and one SQL statement that finds it in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypergauge.core import durations
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.rules import rule_file
from hypergauge.sql.runs import firings
from hypergauge.sql.runs.firings import Firing, RuleFailed
from hypergauge.sql.server.database import Connection

__all__ = [
    "BUILT_IN",
    "PRESETS",
    "Firing",
    "Parameter",
    "Rule",
    "RuleFailed",
    "Value",
    "check_preset",
    "evaluate",
    "load",
    "read",
]

Value = float | timedelta

BUILT_IN = Path(__file__).with_name("built_in")
# The published sets of defaults; the first is what rules say themselves.
PRESETS = ("aws-docs", "smdebug")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a rule: a duration, or a number in `unit`."""

    name: str
    default: Value
    unit: str
    help: str

    def value(self, given: object) -> Value:
        """Return what was `given`, as a file or somebody on the command line writes it.

        Raises
        ------
        BadRequest
            It is no duration, or no number.
        """
        if isinstance(self.default, timedelta):
            if not isinstance(given, str):
                raise BadRequest(f"{self.name} is a duration such as '10 s', not {given!r}")
            return durations.parse(given)
        try:
            if isinstance(given, bool) or not isinstance(given, int | float | str):
                raise ValueError
            return float(given)
        except ValueError:
            unit = f" in {self.unit}" if self.unit else ""
            raise BadRequest(f"{self.name} is a number{unit}, not {given!r}") from None


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule.

    Attributes
    ----------
    means, advice
        What it means where it holds, and what to do about it.
    severity
        ``info``, ``warning`` or ``critical``.
    lookback
        How much of the time before now is judged while a run goes on; ``None`` for all of it. See `stretch`.
    presets
        By the name of a preset, the values that are others than the defaults.
    text, path, line
        Its statement, and the file and line that it begins at.
    """

    name: str
    means: str
    advice: str
    severity: str
    lookback: timedelta | None
    parameters: Mapping[str, Parameter]
    presets: Mapping[str, Mapping[str, Value]]
    text: str = field(repr=False)
    path: Path
    line: int = 1

    def values(self, preset: str | None = None, given: Mapping[str, object] | None = None) -> dict[str, Value]:
        """Return the value of each parameter: as `given`, else of the preset, else its default.

        Raises
        ------
        BadRequest
            There is no such parameter, or the value is none.
        """
        made = {name: one.default for name, one in self.parameters.items()}
        made |= self.presets.get(preset or PRESETS[0], {})
        for name, value in (given or {}).items():
            parameter = self.parameter(name)
            try:
                made[name] = parameter.value(value)
            except BadRequest as error:
                raise BadRequest(f"{self.name}: {error}") from None
        return made

    def parameter(self, name: str) -> Parameter:
        """Return a parameter.

        Raises
        ------
        BadRequest
            There is none of that name.
        """
        if name not in self.parameters:
            raise BadRequest(f"{self.name} has no parameter {name!r}{did_you_mean(name, self.parameters)}")
        return self.parameters[name]

    def stretch(self, values: Mapping[str, Value]) -> timedelta | None:
        """Return how much of the time before now is to be judged while a run goes on; ``None`` for all of it.

        At least twice what its durations come to: what holds for a window has to be seen whole.
        """
        if self.lookback is None:
            return None
        lengths = (value for value in values.values() if isinstance(value, timedelta))
        return max(self.lookback, 2 * sum(lengths, timedelta()))


def load(folders: Iterable[Path] = ()) -> dict[str, Rule]:
    """Return all rules by name: ours, then those of the files ``*.sql`` of the folders.

    Raises
    ------
    BadRequest
        A file is wrong, or of the name of another.
    """
    found: dict[str, Rule] = {}
    for folder in (BUILT_IN, *folders):
        if not folder.is_dir():
            raise BadRequest(f"there is no folder {str(folder)!r} with rules")
        for path in sorted(folder.glob("*.sql")):
            rule = read(path)
            if rule.name in found:
                where = f"there is a rule {rule.name} already, in {found[rule.name].path}; give this one another name"
                raise BadRequest(where, file=path)
            found[rule.name] = rule
    return found


def read(path: Path) -> Rule:
    """Return the rule that a file holds.

    Raises
    ------
    BadRequest
        It cannot be read; names the line.
    """
    file = rule_file.RuleFile.read(path)
    parameters = {name: _parameter(file, name) for name in file.table("parameters")}
    made = Rule(
        name=file.name(),
        means=file.words("means"),
        advice=file.words("advice"),
        severity=file.choice("severity", ("info", "warning", "critical")),
        lookback=file.duration("lookback") if "lookback" in file.content else None,
        parameters=parameters,
        presets={name: _preset(file, name, parameters) for name in file.table("presets")},
        text=file.statement,
        path=path,
        line=file.statement_line,
    )
    file.check_placeholders(("run", "start", "stop"), parameters)
    return made


def _parameter(file: rule_file.RuleFile, name: str) -> Parameter:
    content = file.section("parameters", name, ("default", "unit", "help"))
    default: Any = content.get("default")
    if isinstance(default, str):
        default = file.refusing("default", durations.parse, default, after=f"[parameters.{name}]")
    elif isinstance(default, bool) or not isinstance(default, int | float):
        file.refuse(f'{name} needs a default: a number, or a duration such as "10 s"', f"[parameters.{name}]")
    return Parameter(
        name,
        default if isinstance(default, timedelta) else float(default),
        str(content.get("unit", "")),
        str(content.get("help", "")),
    )


def _preset(file: rule_file.RuleFile, name: str, parameters: Mapping[str, Parameter]) -> dict[str, Value]:
    content = file.section("presets", name, parameters)
    return {
        key: file.refusing(key, parameters[key].value, value, after=f"[presets.{name}]")
        for key, value in content.items()
    }


def evaluate(
    connection: Connection, rule: Rule, values: Mapping[str, Value], run_id: str, start: datetime, stop: datetime,
    limit: timedelta,
) -> list[Firing]:  # fmt: skip
    """Return where in a run, between `start` and `stop`, a rule holds; see `hypergauge.sql.runs.firings.evaluate`.

    Raises
    ------
    RuleFailed
        It could not be evaluated.
    """
    found = firings.evaluate(connection, rule.text, {**values, "run": run_id, "start": start, "stop": stop}, limit)
    return [Firing(run_id, rule.name, began, ended, rule.severity, evidence) for began, ended, evidence in found]


def check_preset(rules: Mapping[str, Rule], preset: str | None) -> None:
    """Refuse a preset that no rule has.

    Raises
    ------
    BadRequest
        There is none of that name.
    """
    known: Sequence[str] = sorted({*PRESETS, *(name for rule in rules.values() for name in rule.presets)})
    if preset is not None and preset not in known:
        raise BadRequest(f"there is no preset {preset!r}{did_you_mean(preset, known)}")
