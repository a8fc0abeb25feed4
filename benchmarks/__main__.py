"""``python -m benchmarks NAME [--json]``."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from bench.errors import BadRequest, did_you_mean
from benchmarks import ingest, parse, query

Figures = Mapping[str, float | str]
BENCHMARKS: dict[str, Callable[[], Figures]] = {
    "parse": parse.measure,
    "ingest": ingest.measure,
    "query": query.measure,
}


def main(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Run one benchmark and print its figures."""
    if name not in BENCHMARKS:
        raise BadRequest(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    figures: dict[str, float | str] = {"benchmark": name, "python": platform.python_version(), **BENCHMARKS[name]()}
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for key, value in figures.items():
            print(f"{key:<28} {value:,.3f}" if isinstance(value, float) else f"{key:<28} {value}")


typer.run(main)
