"""Command ``compare``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hypergauge.cli.common import (
    Attempts,
    Json,
    Selectors,
    TargetOption,
    TariffFile,
    as_json,
    console,
    every_attempt,
    reading,
    show_notices,
)
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal import comparison_table as tables
from hypergauge.dashboards.terminal import gates
from hypergauge.dashboards.terminal.comparison_sheet import Sheet, sheet
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.choices import check_choices
from hypergauge.insight.comparison.columns import SCOPES
from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.insight.comparison.comparison import compare as compare_runs
from hypergauge.insight.comparison.trust import Trust, trust
from hypergauge.insight.regression.conditions import Condition

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench compare 1 --baseline 1/1/1": "differences to a run",
            "bench compare 1 2 --by row": "mean of attempts",
            "bench compare 2 --baseline 1 --fail-on 'step_time>+3%'": "a gate for CI",
        }
    )(compare)


def compare(
    selectors: Selectors,
    by: Annotated[
        str, typer.Option(metavar="run|row|workload", help="Compare these. A row is the mean of all of its attempts.")
    ] = "run",
    attempts: Attempts = "latest",
    baseline: Annotated[
        str | None, typer.Option(metavar="SELECTOR", help="Show differences to this run or workload.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help=f"One of {', '.join(SCOPES)}; by default the narrowest.")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Include power and energy of simulated GPUs.")] = False,
    align: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS",
            help="Compare only the part that all runs have: of 'time', 'step', 'epoch', 'phase' or 'phase:NAME'.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit with 1 if this holds, tested over all attempts: 'step_time>+3%'. Can be repeated.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Rate of false alarms of all --fail-on together; by default 0.05."),
    ] = None,
    tariff: TariffFile = None,
    target: TargetOption = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="COLUMN",
            help="Show this column only, such as 'GPU energy' or loss, or a quantity's mean. Can be repeated.",
        ),
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns, even if the table is wider than the terminal.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write a Markdown table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV, with values in SI units.")] = False,
    json: Json = False,
) -> None:
    """Compare runs, rows (mean of all attempts) or workloads by hardware metrics."""
    conditions = [Condition.parse(text) for text in fail_on or ()]
    every = every_attempt(attempts)
    check_choices(by, scope, every_attempt=every)
    _check_gate(conditions, by, alpha)
    if target is not None and align is not None:
        raise BadRequest("--target looks at whole runs, from their start: leave out --align")
    _check_form(json=json, csv=csv, markdown=markdown, gate=bool(conditions))
    from hypergauge.insight.comparison.chosen import ChosenLosses, ChosenQuantities
    from hypergauge.insight.cost.further import further  # with numpy: slow to import

    settings = Settings.load(tariff=tariff)
    more = further(settings, target, simulated=simulated)
    more += [ChosenQuantities(metrics or ()), ChosenLosses([*(metrics or ()), *(one.metric for one in conditions)])]
    with reading(settings, [*selectors, *([baseline] if baseline else [])]) as connection:
        if conditions:
            from hypergauge.insight.regression.gate import gated  # with scipy: slow to import

            found = gated(
                connection,
                selectors,
                conditions,
                baseline=baseline,
                alpha=0.05 if alpha is None else alpha,
                scope=scope,
                simulated=simulated,
                align=align,
                further=more,
            )
        else:
            found = compare_runs(
                connection,
                selectors,
                by=by,
                baseline=baseline,
                scope=scope,
                simulated=simulated,
                every_attempt=every,
                align=align,
                further=more,
            )
        trusted = trust(connection, found, scope, metrics or ())
    if json:
        as_json({**neighbours.marked(found.as_dict(), trusted.changes), **trusted.as_dict()})
    else:
        read = sheet(found, metrics or (), everything=wide or csv)
        if csv:
            sys.stdout.write(tables.csv_text(found, read))
        elif markdown:
            sys.stdout.write(tables.markdown(read, [one.text for one in trusted.notices]) + "\n")
        else:
            _show(found, read, trusted, wide=wide, hide=not metrics)
    if found.gate and found.gate.failed:
        raise typer.Exit(1)


def _check_gate(conditions: Sequence[Condition], by: str, alpha: float | None) -> None:
    """Refuse options that contradict ``--fail-on``, or need it."""
    if conditions and by != "run":
        raise BadRequest("--fail-on tests rows over their attempts: leave out --by")
    if alpha is not None and not conditions:
        raise BadRequest("--alpha goes with --fail-on")


def _check_form(*, json: bool, csv: bool, markdown: bool, gate: bool) -> None:
    """Refuse forms of output that contradict each other, or have no room for the verdict of a gate."""
    if json + csv + markdown > 1:
        raise BadRequest("--json, --csv and --markdown exclude each other")
    if gate and (csv or markdown):
        raise BadRequest("--fail-on explains its verdict in a table or with --json: leave out --csv and --markdown")


def _show(found: Comparison, read: Sheet, trusted: Trust, *, wide: bool, hide: bool) -> None:
    out = console()
    made = tables.comparison_table(read, None if wide else out.width, hide=hide)
    (console(max(out.width, tables.natural_width(made))) if wide else out).print(made)
    show_notices(trusted.notices)
    if found.gate:
        console().print(gates.table(found.gate, console().width))
        for line in gates.lines(found.gate):
            console().print(line)
