"""The file ``bench.toml`` and its sections."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hypergauge.core.errors import BadRequest

__all__ = ["CONFIG_FILE", "config_file", "content", "sections"]

CONFIG_FILE = "bench.toml"


def config_file(directory: Path | None = None) -> Path | None:
    """Return the ``bench.toml`` for a command in `directory`, ``None`` if there is none."""
    start = (directory or Path.cwd()).absolute()
    return next((path for folder in (start, *start.parents) if (path := folder / CONFIG_FILE).is_file()), None)


def sections(path: Path, kind: str) -> dict[str, Any]:
    """Return the sections ``[KIND.NAME]`` of a ``bench.toml`` by name, such as ``[environments.NAME]``.

    Raises
    ------
    BadRequest
        The file cannot be parsed, or has another value under that name.
    """
    found = content(path).get(kind, {})
    if not isinstance(found, dict):
        raise BadRequest(f"{kind} is not a section: write [{kind}.NAME]", file=path)
    return found


def content(path: Path) -> dict[str, Any]:
    """Return the content of a ``bench.toml``.

    Raises
    ------
    BadRequest
        The file cannot be read or parsed, or has a text with a NUL character, which no path or command can have.
    """
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
        if _has_nul(parsed):
            raise ValueError("a text has a NUL character")
    except OSError as error:
        raise BadRequest(f"cannot be read: {error.strerror}", file=path) from error
    except RecursionError:
        raise BadRequest("not valid TOML: nested too deeply", file=path) from None
    except ValueError as error:  # also numbers of thousands of digits
        raise BadRequest(f"not valid TOML: {error}", file=path) from error
    return parsed


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(inner) for key, inner in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value
