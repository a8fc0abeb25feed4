"""Default options of profilers: the section ``[profilers]`` of ``bench.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hypergauge.core.config.bench_toml import config_file, content
from hypergauge.core.errors import BadRequest

__all__ = ["profiler_options"]


def profiler_options(directory: Path | None = None) -> Mapping[str, str]:
    """Return the options of profilers for a command in `directory`, by the profiler's name.

    Raises
    ------
    BadRequest
        The file cannot be parsed, or has another value than text.
    """
    if (path := config_file(directory)) is None:
        return {}
    found = content(path).get("profilers", {})
    if not isinstance(found, dict):
        raise BadRequest('profilers is not a section: write [profilers] with lines NAME = "OPTION=VALUE"', file=path)
    for name, value in found.items():
        if not isinstance(value, str):
            raise BadRequest(f'[profilers]: {name} must be a string, such as "OPTION=VALUE"', file=path)
    return found
