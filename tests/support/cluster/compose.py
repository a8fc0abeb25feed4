"""Content of docker-compose.yml, as resolved by Docker Compose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yml"
PROFILES = ("host", "nvml", "dcgm", "dcgm-exporter", "replica", "store", "rest")

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?::(?P<how>[-?])(?P<rest>[^}]*))?\})")


def passwords() -> dict[str, str]:
    """Return the variables that ``deploy/passwords.sh`` writes; each value is its name in lower case."""
    names = re.findall(r"\{ environment: ([A-Z_]+) \}", FILE.read_text())
    return {name: name.lower().replace("_", "") for name in names}


def load(environment: Mapping[str, str], file: Path = FILE) -> dict[str, Any]:
    """Return a file with the variables of `environment` replaced."""

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        found = environment.get(match["name"]) or (match["rest"] if match["how"] == "-" else None)
        assert found is not None, f"{match['name']}: {match['rest']}"
        return found

    content: dict[str, Any] = yaml.safe_load(file.read_text())
    return dict(_replaced(content, value))


def _replaced(node: Any, value: Any) -> Any:
    if isinstance(node, dict):
        return {key: _replaced(one, value) for key, one in node.items()}
    if isinstance(node, list):
        return [_replaced(one, value) for one in node]
    return _VARIABLE.sub(value, node) if isinstance(node, str) else node
