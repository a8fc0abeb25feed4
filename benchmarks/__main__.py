"""``python -m benchmarks NAME [--json]``."""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from benchmarks import (
    capsules,
    commands,
    dashboards,
    faults,
    gpu,
    ingest,
    overhead,
    parse,
    query,
    replica,
    scale,
    schedule,
    soak,
    spans,
    storage,
    tracking,
)
from benchmarks.servers import Kind
from hypergauge.core.errors import BadRequest, did_you_mean

Figures = Mapping[str, float | str]
BENCHMARKS: dict[str, Callable[..., Figures]] = {
    name: module.measure
    for name, module in {
        "parse": parse,
        "ingest": ingest,
        "query": query,
        "replica": replica,
        "dashboards": dashboards,
        "storage": storage,
        "mlflow": tracking,
        "overhead": overhead,
        "gpu": gpu,
        "capsules": capsules,
        "commands": commands,
        "scale": scale,
        "schedule": schedule,
        "soak": soak,
        "spans": spans,
        "faults": faults,
    }.items()
}


def main(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="How long `soak` and `faults` go on (60), each part of `scale` (5), or `overhead` tries to resolve the slow-down (20)."
        ),
    ] = None,
    server: Annotated[
        Kind | None,
        typer.Option(help="The database's server: with our settings, or stock, as a package installs it."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="What `faults` draws from; another one each time by default.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Some of the faults of `faults`, such as clock,server.")] = None,
) -> None:
    """Run one benchmark and print its figures."""
    if name not in BENCHMARKS:
        raise BadRequest(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    given = {"minutes": minutes, "server": server, "seed": seed, "only": only}
    options = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in inspect.signature(BENCHMARKS[name]).parameters:
            takers = (other for other, measure in BENCHMARKS.items() if option in inspect.signature(measure).parameters)
            raise BadRequest(f"--{option} is for {', '.join(takers)}")
    measured = BENCHMARKS[name](**options)
    figures: dict[str, float | str] = {
        "benchmark": name,
        "python": platform.python_version(),
        **({"server": server.value} if server else {}),
        **measured,
    }
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for key, value in figures.items():
            print(f"{key:<28} {value:,.3f}" if isinstance(value, float) else f"{key:<28} {value}")
    if figures.get("resolved") == "not resolved" or figures.get("findings"):
        raise typer.Exit(1)


typer.run(main)
