"""``python -m benchmarks NAME [--json]``."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from bench.errors import BadRequest, did_you_mean
from benchmarks import (
    capsules,
    dashboards,
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

Figures = Mapping[str, float | str]
BENCHMARKS: dict[str, Callable[[], Figures]] = {
    "parse": parse.measure,
    "ingest": ingest.measure,
    "query": query.measure,
    "replica": replica.measure,
    "dashboards": dashboards.measure,
    "storage": storage.measure,
    "mlflow": tracking.measure,
    "overhead": overhead.measure,
    "gpu": gpu.measure,
    "capsules": capsules.measure,
    "scale": scale.measure,
    "schedule": schedule.measure,
    "soak": soak.measure,
    "spans": spans.measure,
}
# Those that go on for as long as is wanted, in minutes.
TIMED: dict[str, Callable[[float], Figures]] = {
    "overhead": overhead.measure,
    "scale": scale.measure,
    "soak": soak.measure,
}


def main(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="How long `soak` goes on (60), each part of `scale` (5), or `overhead` tries to resolve the slow-down (20)."
        ),
    ] = None,
) -> None:
    """Run one benchmark and print its figures."""
    if name not in BENCHMARKS:
        raise BadRequest(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    if minutes is None:
        measured = BENCHMARKS[name]()
    elif name in TIMED:
        measured = TIMED[name](minutes)
    else:
        raise BadRequest(f"--minutes is for {' and '.join(TIMED)}")
    figures: dict[str, float | str] = {"benchmark": name, "python": platform.python_version(), **measured}
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for key, value in figures.items():
            print(f"{key:<28} {value:,.3f}" if isinstance(value, float) else f"{key:<28} {value}")
    if figures.get("resolved") == "not resolved":
        raise typer.Exit(1)


typer.run(main)
