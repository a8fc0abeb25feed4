"""Converter of radT's sweep files in YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.experiment import user_file

__all__ = ["SUFFIXES", "read"]

SUFFIXES = (".yml", ".yaml")
# Keys of a sweep file, by the key of radT.
_EXPERIMENT = {
    "experiment": "id", "name": "name", "file": "file", "devices": "devices", "collocation": "collocation",
    "listeners": "listeners",
}  # fmt: skip
# radT writes `status` and `parent` back; they refer to runs in its own tracking server.
_KEYS = (*_EXPERIMENT, "method", "parameters", "status", "parent")


def read(path: Path) -> dict[str, Any]:
    """Return the content of a radT sweep in the structure of a TOML sweep.

    Raises
    ------
    BadRequest
        The file cannot be read, or has keys or values that radT does not support.
    """
    content = _parse(path)
    for key in content:
        if key not in _KEYS:
            raise BadRequest(f"{key}: radT's sweep files have no such key{did_you_mean(str(key), _KEYS)}", file=path)
    if (method := content.get("method", "grid")) != "grid":
        raise BadRequest(
            f"method: radT only shuffles the points of the grid; write `grid` for all of "
            f"them, or use a TOML file with [random] to draw values, instead of {method!r}",
            file=path,
        )
    parameters = content.get("parameters")
    if not isinstance(parameters, dict):
        raise BadRequest("parameters: must be a list of `NAME: {values: […]}`", file=path)
    grid = {}
    for name, one in parameters.items():
        if not isinstance(one, dict) or set(one) != {"values"} or not isinstance(one["values"], list):
            raise BadRequest(f"parameters.{name}: must be `values: […]`, not {one!r}", file=path)
        grid[str(name)] = [_value(value) for value in one["values"]]
    experiment = {
        ours: content[theirs] for theirs, ours in _EXPERIMENT.items() if content.get(theirs) not in (None, "")
    }
    return {"experiment": experiment, "grid": grid}


def _parse(path: Path) -> dict[Any, Any]:
    try:
        content = yaml.safe_load(user_file.read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        raise BadRequest(f"not valid YAML: {getattr(error, 'problem', error)}", file=path, **position) from error
    if not isinstance(content, dict):
        raise BadRequest("not a sweep: the file has no keys", file=path)
    return content


def _value(value: Any) -> Any:
    """Return a value as radT passes it: ``--shuffle True``, where a TOML sweep passes the option alone."""
    return str(value) if isinstance(value, bool) else value
