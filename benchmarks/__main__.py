"""``python -m benchmarks NAME [--json]``."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from bench.errors import BadRequest, did_you_mean
from benchmarks import ingest, overhead, parse, query, storage, tracking

Figures = Mapping[str, float | str]
BENCHMARKS: dict[str, Callable[[], Figures]] = {
    "parse": parse.measure,
    "ingest": ingest.measure,
    "query": query.measure,
    "storage": storage.measure,
    "mlflow": tracking.measure,
    "overhead": overhead.measure,
}


def main(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    minutes: Annotated[float, typer.Option(help="After which `overhead` gives up to resolve the slow-down.")] = 20.0,
) -> None:
    """Run one benchmark and print its figures."""
    if name not in BENCHMARKS:
        raise BadRequest(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    measured = overhead.measure(minutes) if name == "overhead" else BENCHMARKS[name]()
    figures: dict[str, float | str] = {"benchmark": name, "python": platform.python_version(), **measured}
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for key, value in figures.items():
            print(f"{key:<28} {value:,.3f}" if isinstance(value, float) else f"{key:<28} {value}")
    if figures.get("resolved") == "not resolved":
        raise typer.Exit(1)


typer.run(main)
