"""``python -m benchmarks NAME [--json]``."""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.campaign import faults
from benchmarks.compatibility import unchanged
from benchmarks.database import (
    capsules,
    catalog,
    dashboards,
    ingest,
    move,
    packing,
    peers,
    query,
    replica,
    rules,
    storage,
    tensors,
    tracking,
)
from benchmarks.measurement import coverage, gpu, overhead, parse, profiling, scale, soak, watch
from benchmarks.scheduling import commands, schedule, spans
from benchmarks.support.servers import Kind
from benchmarks.training.stepping import TrainingKind
from hypergauge.core.errors import BadRequest, did_you_mean

Results = Mapping[str, float | str]
BENCHMARKS: dict[str, Callable[..., Results]] = {
    name: module.measure
    for name, module in {
        "parse": parse,
        "ingest": ingest,
        "query": query,
        "replica": replica,
        "rules": rules,
        "dashboards": dashboards,
        "catalog": catalog,
        "storage": storage,
        "peers": peers,
        "packing": packing,
        "move": move,
        "tensors": tensors,
        "mlflow": tracking,
        "coverage": coverage,
        "overhead": overhead,
        "profile": profiling,
        "watch": watch,
        "gpu": gpu,
        "capsules": capsules,
        "commands": commands,
        "scale": scale,
        "schedule": schedule,
        "soak": soak,
        "spans": spans,
        "faults": faults,
        "scripts": unchanged,
    }.items()
}


def main(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Duration of `soak` and `faults` (60), of each part of `scale` (5), or limit of `overhead` for each kind of training (20), of `profile` (5) and of `watch` (5)."
        ),
    ] = None,
    server: Annotated[
        Kind | None,
        typer.Option(help="Database server: with our settings, or stock as its package installs it."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of `faults` and `packing` (random), or of the order in `overhead` and `profile` (1)."),
    ] = None,
    kind: Annotated[
        TrainingKind | None, typer.Option(help="Kind of training for `overhead` (all), or `profile` (compute).")
    ] = None,
    hz: Annotated[
        int | None,
        typer.Option(
            min=1, max=100, help="Scrapes per second for `overhead` (1, at most 10), or samples for `profile` (20)."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Faults for `faults` to use, such as clock,server; part of the names of `scripts`."),
    ] = None,
    embedded: Annotated[
        bool | None, typer.Option("--embedded", help="Use the embedded database in `faults`, as without BENCH_DSN.")
    ] = None,
    checkouts: Annotated[
        Path | None, typer.Option(help="Folder with the checkouts of `scripts`, by the repository's name.")
    ] = None,
) -> None:
    """Run one benchmark and print its results."""
    if name not in BENCHMARKS:
        raise BadRequest(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    given = {
        "minutes": minutes,
        "server": server,
        "seed": seed,
        "kind": kind,
        "hz": hz,
        "only": only,
        "embedded": embedded,
        "checkouts": checkouts,
    }
    options = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in inspect.signature(BENCHMARKS[name]).parameters:
            supporting = (
                other for other, measure in BENCHMARKS.items() if option in inspect.signature(measure).parameters
            )
            raise BadRequest(f"--{option} is for {', '.join(supporting)}")
    measured = BENCHMARKS[name](**options)
    results: dict[str, float | str] = {
        "benchmark": name,
        "python": platform.python_version(),
        **({"server": server.value} if server else {}),
        **measured,
    }
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for key, value in results.items():
            print(f"{key:<28} {_shown(value) if isinstance(value, float) else value}")
    if results.get("resolved") == "not resolved" or results.get("findings"):
        raise typer.Exit(1)


def _shown(value: float) -> str:
    """Return a value with three decimals, or five if it is small."""
    return f"{value:,.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.5f}"


typer.run(main)
