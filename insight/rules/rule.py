"""Rule: a file with a header of properties and one SQL statement that returns findings in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
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

_BUILT_IN = tuple(Path(__file__).with_name("built_in") / topic for topic in ("gpu", "host", "training", "health"))
# Published sets of defaults; the first holds the rules' own defaults.
PRESETS = ("aws-docs", "smdebug")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a rule: a duration, or a number in `unit`."""

    name: str
    default: Value
    unit: str
    help: str

    def value(self, given: object) -> Value:
        """Return the value of `given`, as written in a file or on the command line.

        Raises
        ------
        BadRequest
            `given` is not a duration, or not a number.
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
    """Rule, read from its file.

    Attributes
    ----------
    means, advice
        Meaning of a firing, and what users can do.
    severity
        ``info``, ``warning`` or ``critical``.
    lookback
        Evaluated time before now of a running run; ``None`` for all of it. See `window`.
    presets
        Values that differ from the defaults, by preset.
    needs
        Inputs of which a run must have at least one, or the rule cannot fire; empty if that is unknown.
    text, path, line
        Statement, and the file and line of its start.
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
    needs: frozenset[str] = frozenset()

    @property
    def needs_samples(self) -> bool:
        """Whether the rule needs samples of the hardware, and nothing that the script writes."""
        return self.needs <= {"gpus"}

    def can_fire(self, inputs: Set[str]) -> bool:
        """Return whether the rule can fire on a run with these inputs."""
        return not self.needs or not self.needs.isdisjoint(inputs)

    def values(self, preset: str | None = None, given: Mapping[str, object] | None = None) -> dict[str, Value]:
        """Return the value of each parameter: as `given`, else of the preset, else its default.

        Raises
        ------
        BadRequest
            A parameter is unknown, or a value is invalid.
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
            The parameter is unknown.
        """
        if name not in self.parameters:
            raise BadRequest(f"{self.name} has no parameter {name!r}{did_you_mean(name, self.parameters)}")
        return self.parameters[name]

    def window(self, values: Mapping[str, Value]) -> timedelta | None:
        """Return the evaluated time before now of a running run; ``None`` for all of it.

        It is at least twice the sum of the durations, so that it holds whole windows.
        """
        if self.lookback is None:
            return None
        lengths = (value for value in values.values() if isinstance(value, timedelta))
        return max(self.lookback, 2 * sum(lengths, timedelta()))


def load(folders: Iterable[Path] = ()) -> dict[str, Rule]:
    """Return all rules by name: built-in ones, then those in ``*.sql`` files of the folders.

    Raises
    ------
    BadRequest
        A file is invalid, or two rules share a name.
    """
    found: dict[str, Rule] = {}
    for folder in (*_BUILT_IN, *folders):
        if not folder.is_dir():
            raise BadRequest(f"there is no folder {str(folder)!r} with rules")
        for path in sorted(folder.glob("*.sql")):
            rule = read(path)
            if rule.name in found:
                where = f"the rule {rule.name} exists in {found[rule.name].path}; choose another name"
                raise BadRequest(where, file=path)
            found[rule.name] = rule
    return found


def read(path: Path) -> Rule:
    """Return the rule in a file.

    Raises
    ------
    BadRequest
        The file is invalid; names the line.
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
        needs=frozenset(file.names("needs")),
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
    connection: Connection | firings.Evaluations, rule: Rule, values: Mapping[str, Value], run_id: str, start: datetime, stop: datetime,
    limit: timedelta,
) -> list[Firing]:  # fmt: skip
    """Return the firings of a rule in a run between `start` and `stop`.

    Raises
    ------
    RuleFailed
        The evaluation failed.
    """
    given = {**values, "run": run_id, "start": start, "stop": stop}
    if isinstance(connection, firings.Evaluations):
        found = connection.evaluate(rule.text, given)
    else:
        found = firings.evaluate(connection, rule.text, given, limit)
    return [Firing(run_id, rule.name, began, ended, rule.severity, evidence) for began, ended, evidence in found]


def check_preset(rules: Mapping[str, Rule], preset: str | None) -> None:
    """Refuse an unknown preset.

    Raises
    ------
    BadRequest
        No preset has that name.
    """
    known: Sequence[str] = sorted({*PRESETS, *(name for rule in rules.values() for name in rule.presets)})
    if preset is not None and preset not in known:
        raise BadRequest(f"there is no preset {preset!r}{did_you_mean(preset, known)}")
