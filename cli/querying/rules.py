"""Commands ``rules run``, ``rules list``, ``rules check`` and ``rules replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, SomeSelectors, as_json, console, primary, reading
from hypergauge.cli.help import Commands
from hypergauge.cli.serving.serve import Bind, Insecure, Port, WebConfigFile
from hypergauge.core import durations
from hypergauge.core.config.bench_toml import CONFIG_FILE, config_file
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.evidence import evidence_text
from hypergauge.core.listing import counted
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.insight import rules
from hypergauge.insight.rules import Firing, Parameter, Rule, Value
from hypergauge.insight.rules import replay as replays
from hypergauge.insight.rules.assignments import Trials, assigned, known_rule
from hypergauge.insight.rules.chosen import ChosenRules
from hypergauge.insight.rules.replay import Evaluated
from hypergauge.insight.rules.trial import newest_run, try_rule
from hypergauge.sql.runs.selection import RunInfo, select_runs

__all__ = ["register"]

app = Commands(
    help="Rules on runs: bottlenecks, idle devices, outliers.",
    no_args_is_help=True,
    examples={
        "bench rules list": "what each rule means",
        "bench rules replay 1": "which rules fire on the runs of experiment 1",
    },
)

Preset = Annotated[str | None, typer.Option(metavar="|".join(rules.PRESETS), help="Use published thresholds.")]
Folder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help=f"Folder of your own rules; by default rules/ next to {CONFIG_FILE}."),
]
Limit = Annotated[str, typer.Option(metavar="DURATION", help="Longest time that one rule may take for one run.")]


def register(commands: Commands) -> None:
    """Add the commands to `commands`."""
    commands.add_typer(app, name="rules")


@app.command(examples={"bench rules run": "what the local stack does by itself"})
def run(port: Port = 0, bind: Bind = "127.0.0.1", web_config: WebConfigFile = None, insecure: Insecure = False) -> None:
    """Evaluate rules on running runs, until SIGTERM or Ctrl-C.

    These are the runs of this BENCH_HOME.
    """
    from hypergauge.stack.services.rule_process import evaluate_rules

    evaluate_rules(Settings.load(web_config=web_config), bind, port, insecure=insecure)


@app.command(
    "list",
    examples={"bench rules list": "all rules", "bench rules list --preset aws-docs": "with published thresholds"},
)
def list_(preset: Preset = None, folder: Folder = None, json: Json = False) -> None:
    """Show all rules, with their meaning and parameters."""
    chosen = ChosenRules.read(config_file(), preset=preset, folder=folder)
    if json:
        as_json(
            [
                {**_as_dict(one.rule, one.values), "enabled": name not in chosen.off}
                for name, one in chosen.known.items()
            ]
        )
        return
    known = chosen.known.values()
    assignments = [
        [f"{name} = {_text(one.values[name], of)}" for name, of in one.rule.parameters.items()] for one in known
    ]
    names = [f"{name} =" for one in known for name in one.rule.parameters]
    out = console()
    out.print(
        fitted(
            [
                Field("rule", [name + (" (off)" if name in chosen.off else "") for name in chosen.known]),
                Field("severity", [one.rule.severity for one in known], 0),
                Field("means", [escape(one.rule.means) for one in known], wraps=True),
                Field(
                    "parameters",
                    [escape("\n".join(one)) for one in assignments],
                    wraps=True,
                    least=max(map(len, names), default=0),
                ),
            ],
            out.width,
        )
    )


@app.command(examples={"bench rules check rules/*.sql": "your own rules"})
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Rule file, .sql.")],
    limit: Limit = "5 s",
    json: Json = False,
) -> None:
    """Check your own rules: their headers and their SQL.

    The SQL is tried on the newest run of the database.
    """
    seconds = durations.parse(limit)
    with reading() as connection:
        run = newest_run(connection)
        checked = [(file, try_rule(connection, file, run, seconds)) for file in files]
    if json:
        as_json([{"file": str(file), "rule": rule.name, "run": run and run.label} for file, rule in checked])
        return
    on = f", tested on {run.label}" if run else ", but there is no run to test it on"
    for file, rule in checked:
        console().print(f"{escape(str(file))}: {rule.name} is valid{on}")


@app.command(
    examples={
        "bench rules replay 1": "on these runs",
        "bench rules replay --sweep IdleDevice.threshold=0.1,0.2": "try thresholds",
    }
)
def replay(
    selectors: SomeSelectors = None,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Evaluate this rule only. Can be repeated.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="RULE.PARAMETER=VALUE", help="Set a parameter of a rule. Can be repeated."),
    ] = None,
    swept: Annotated[
        str | None,
        typer.Option(
            "--sweep", metavar="RULE.PARAMETER=VALUE,…", help="For each value, count the runs on which the rule fires."
        ),
    ] = None,
    preset: Preset = None,
    folder: Folder = None,
    limit: Limit = "30 s",
    store: Annotated[bool, typer.Option("--store", help="Store the firings in the database.")] = False,
    json: Json = False,
) -> None:
    """Evaluate rules on past runs; without a selector, on all."""
    chosen = ChosenRules.read(config_file(), preset=preset, folder=folder)
    seconds = durations.parse(limit)
    values = assigned(chosen, given or ())
    if swept is not None:
        if store or rule:
            raise BadRequest("--sweep counts firings of one rule: leave out --store and --rule")
        _sweep(Trials.parse(chosen, swept), values, selectors or [], seconds, json)
        return
    which = [known_rule(chosen, name) for name in rule] if rule else [one.rule for one in chosen.enabled]
    with (primary if store else reading)() as connection:
        runs = select_runs(connection, selectors or [])
        evaluated = list(replays.replay(connection, [(one, values[one.name]) for one in which], runs, seconds))
        if store:
            replays.store(connection, evaluated)
    if json:
        as_json([_evaluated_as_dict(one) for one in evaluated])
    else:
        _show(evaluated, len(runs))
    if any(one.failure for one in evaluated):
        raise typer.Exit(1)


def _show(evaluated: Sequence[Evaluated], runs: int) -> None:
    fired = [(one.run, firing) for one in evaluated for firing in one.firings]
    if fired:
        _show_firings(fired)
    of = len({run.run_id for run, _ in fired})
    console().print(f"{counted(len(fired), 'firing')} in {of} of {counted(runs, 'run')}")
    for one in evaluated:
        if one.failure:
            console().print(
                f"[yellow]![/] {one.run.full_label}: {one.rule.name} could not be evaluated: {escape(one.failure)}"
            )


def _show_firings(fired: Sequence[tuple[RunInfo, Firing]]) -> None:
    def after_start(run: RunInfo, firing: Firing) -> float:
        assert run.started_at is not None
        return (firing.started_at - run.started_at).total_seconds()

    now = datetime.now(UTC)
    lasted = [((firing.ended_at or now) - firing.started_at).total_seconds() for _, firing in fired]
    out = console()
    out.print(
        fitted(
            [
                Field("run", [run.full_label for run, _ in fired]),
                Field("rule", [firing.rule for _, firing in fired]),
                Field("severity", [firing.severity for _, firing in fired], 1),
                Field(">from", [formatting.duration(after_start(run, firing)) for run, firing in fired]),
                Field(">for", [formatting.duration(seconds) for seconds in lasted], 0),
                Field("evidence", [escape(evidence_text(firing.evidence)) for _, firing in fired], wraps=True),
            ],
            out.width,
        )
    )


def _sweep(
    swept: Trials, values: Mapping[str, Mapping[str, Value]], selectors: Sequence[str], limit: timedelta, json: bool
) -> None:
    own = values[swept.rule.name]
    name = swept.parameter.name
    with reading() as connection:
        runs = select_runs(connection, selectors)
        found = list(replays.sweep(connection, swept.rule, own, name, swept.values, runs, limit))
    if json:
        rows = [
            {"value": _plain(one.value), "fired": one.fired, "runs": one.runs, "seconds": one.seconds, "failures": one.failures}
            for one in found
        ]  # fmt: skip
        as_json({"rule": swept.rule.name, "parameter": name, "value": _plain(own[name]), "sweep": rows})
        return
    made = tables.table(name, ">fires on", ">of runs", ">for")
    for one in found:
        mark = " (as set)" if one.value == own[name] else ""
        made.add_row(
            _text(one.value, swept.parameter) + mark, str(one.fired), str(one.runs), formatting.duration(one.seconds)
        )
    console().print(made)
    if failures := sum(one.failures for one in found):
        console().print(
            f"[yellow]![/] {counted(failures, 'evaluation')} failed; `bench rules replay --rule {swept.rule.name}` says why"
        )


def _text(value: Value, parameter: Parameter) -> str:
    return f"{_plain(value)} {parameter.unit}".rstrip()


def _plain(value: Value) -> str | float:
    """Return a value in the form of a rule file."""
    if isinstance(value, timedelta):
        return durations.words(value)
    return int(value) if value == int(value) else value


def _as_dict(rule: Rule, values: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "severity": rule.severity,
        "means": rule.means,
        "advice": rule.advice,
        "file": str(rule.path),
        "parameters": {
            name: {"value": _plain(values[name]), "default": _plain(one.default), "unit": one.unit, "help": one.help}
            for name, one in rule.parameters.items()
        },
    }


def _evaluated_as_dict(one: Evaluated) -> dict[str, Any]:
    return {
        "run": one.run.full_label,
        "run_id": one.run.run_id,
        "rule": one.rule.name,
        "failure": one.failure,
        "firings": [
            {
                "started_at": firing.started_at,
                "ended_at": firing.ended_at,
                "severity": firing.severity,
                "evidence": firing.evidence,
            }
            for firing in one.firings
        ],
    }
