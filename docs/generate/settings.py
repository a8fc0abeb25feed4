"""Settings, from their models."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from docs.generate.markdown import attributes, table
from hypergauge.core.config.environments import NamedEnvironment
from hypergauge.core.config.settings import VARIABLES, Settings

__all__ = ["environments", "sections"]


def sections() -> str:
    """Return a section for each setting."""
    meanings = attributes(Settings)
    return "\n\n".join(_section(setting, meanings[setting.name]) for setting in fields(Settings))


def environments() -> str:
    """Return the keys of a section ``[environments.NAME]``."""
    rows = ([f"`{key}`", text] for key, text in attributes(NamedEnvironment).items() if key not in ("name", "file"))
    return table(["key", "meaning"], rows)


def _section(setting: Field[Any], meaning: str) -> str:
    lines = [f"- in `bench.toml`: `{setting.name}`"]
    if variable := VARIABLES.get(setting.name):
        lines.insert(0, f"- variable: `{variable}`")
    if setting.default is not MISSING and setting.default is not None:
        lines.append(f"- default: {_default(setting.name, setting.default)}")
    return "\n\n".join([f"### {setting.name}", meaning, "\n".join(lines)])


def _default(name: str, value: float | str) -> str:
    if name == "output_limit":
        return f"`{int(value) >> 30}GiB`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
