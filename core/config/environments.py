"""Named environments of runs: sections ``[environments.NAME]`` of ``bench.toml``.

They are not part of `Settings`, which travel to other processes: their variables may hold secrets. Plain code checks
them, since every command does so, and pydantic takes longer to import than a short command takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.config.bench_toml import config_file, sections
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["NamedEnvironment", "named_environments"]

# Keys of a section `[environments.NAME]`, with their types.
_ENVIRONMENT_KEYS: Mapping[str, type[str] | type[list[str]] | type[dict[str, str]]] = {
    "conda": str,
    "directory": str,
    "docker": str,
    "entry_point": str,
    "mounts": list,
    "python": str,
    "variables": dict,
    "venv": str,
}
_KINDS: Mapping[object, str] = {str: "a string", list: "a list of strings", dict: "a table of strings"}


@dataclass(frozen=True, slots=True)
class NamedEnvironment:
    """A section ``[environments.NAME]`` of ``bench.toml``. The texts below are those of the reference.

    Attributes
    ----------
    name, file
        Name and file of the section; relative paths are relative to the file's folder.
    entry_point
        Command line of rows with a model, with ``{python}``, ``{model}``, ``{data}``, ``{params}`` and ``{name}``.
    python
        Interpreter, by default that of ``bench``; beside ``docker``, its name in the image, by default ``python``.
    conda
        Name of a conda environment.
    venv
        Path of a virtual environment.
    docker
        Image on the host.
    directory
        Working directory of the runs. By default that of ``bench schedule``.
    variables
        Variables that are added to the environment of the runs.
    mounts
        Folders of the host that a container sees in addition, each ``PATH`` or ``PATH:ro``.
    """

    name: str
    file: Path
    entry_point: str | None = None
    python: str | None = None
    conda: str | None = None
    venv: str | None = None
    docker: str | None = None
    directory: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    mounts: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of relative paths."""
        return self.file.parent


def named_environments(directory: Path | None = None) -> Mapping[str, NamedEnvironment]:
    """Return the sections ``[environments.NAME]`` for a command in `directory`, by name.

    They are not part of `Settings`, which travel to other processes: their variables may hold secrets.

    Raises
    ------
    BadRequest
        As `Settings.load`.
    """
    if (path := config_file(directory)) is None:
        return {}
    return {name: _environment(name, section, path) for name, section in sections(path, "environments").items()}


def _environment(name: str, section: object, path: Path) -> NamedEnvironment:
    where = f"[environments.{name}]"
    if not isinstance(section, dict):
        raise BadRequest(f"environments.{name} is {section!r}, but must be a section {where}", file=path)
    for key, value in section.items():
        if key not in _ENVIRONMENT_KEYS:
            raise BadRequest(f"{where}: unknown setting {key!r}{did_you_mean(key, _ENVIRONMENT_KEYS)}", file=path)
        kind = _ENVIRONMENT_KEYS[key]
        values = value.values() if kind is dict and isinstance(value, dict) else value if kind is list else [value]
        if not isinstance(value, kind) or not all(isinstance(one, str) for one in values):
            raise BadRequest(f"{where}: {key} must be {_KINDS[kind]}", file=path)
    kinds = [key for key in ("conda", "venv", "docker") if key in section]
    if "python" in section and kinds != ["docker"]:
        kinds.append("python")
    if len(kinds) > 1:
        raise BadRequest(f"{where}: {' and '.join(kinds)} contradict each other; leave one", file=path)
    if "mounts" in section and "docker" not in section:
        raise BadRequest(f"{where}: mounts are for a container, but there is no docker", file=path)
    return NamedEnvironment(name, path.absolute(), **{**section, "mounts": tuple(section.get("mounts", ()))})
