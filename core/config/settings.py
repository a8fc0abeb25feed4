"""Settings: flag > environment > ``bench.toml`` in the working directory or above > default."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = [
    "CONFIG_FILE",
    "EXECUTORS",
    "LEASE_SECONDS",
    "NamedEnvironment",
    "Settings",
    "config_file",
    "named_environments",
    "secret",
    "sections",
]

CONFIG_FILE = "bench.toml"

_VARIABLES = {
    "dsn": "BENCH_DSN",
    "read_dsn": "BENCH_READ_DSN",
    "home": "BENCH_HOME",
    "tracking_uri": "MLFLOW_TRACKING_URI",
    "grafana_url": "BENCH_GRAFANA_URL",
    "simulate": "BENCH_SIMULATE",
    "output_limit": "BENCH_OUTPUT_LIMIT",
    "tariff": "BENCH_TARIFF",
    "web_config": "BENCH_WEB_CONFIG",
    "artifacts": "BENCH_ARTIFACTS",
    "executor": "BENCH_EXECUTOR",
    "lease": "BENCH_LEASE",
    "grace": "BENCH_GRACE",
}
_PATHS = ("home", "tariff", "web_config")
# What is not a string, and what else it may be in bench.toml.
_NUMBERS = {
    "interval": "a number",
    "output_limit": "a size such as 512MiB",
    "lease": "a number of seconds",
    "grace": "a number of seconds",
}
# Sections that are no part of `Settings`, which travel to other processes.
_SECTIONS = ("environments", "rules", "actions", "slurm")
# Executors of others are entry points of this group, and may have sections of their names.
EXECUTORS = "hypergauge.executors"
_KINDS_OF_NUMBERS: Mapping[str, tuple[type, ...]] = {
    "interval": (int, float), "output_limit": (int, str), "lease": (int, float), "grace": (int, float)
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kMGT]i?)?B)?", re.IGNORECASE)
_UNITS = {"": 1} | {unit + i: base ** (n + 1) for n, unit in enumerate("kmgt") for i, base in (("", 1000), ("i", 1024))}
_LEAST_OUTPUT = 1 << 20
# A renewal every third of a lease: one may be late by two, also where a host is busy.
LEASE_SECONDS = 15.0


# What a section `[environments.NAME]` may say, and of which kind that is.
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
    """A section ``[environments.NAME]`` of ``bench.toml``.

    Attributes
    ----------
    name, file
        Its name, and the file that it stands in: relative paths count from there.
    entry_point
        The command line of rows with a model, with ``{python}``, ``{model}``, ``{data}``, ``{params}`` and ``{name}``.
    python, conda, venv, docker
        The interpreter, or what brings it: at most one of the latter three; none of the four is this interpreter.
    directory
        The working directory of its runs; ``None`` for that of the scheduler.
    variables
        What is added to the environment of its runs.
    mounts
        Folders of the host that a container sees besides its working directory, each ``PATH`` or ``PATH:ro``.
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
        """The folder that relative paths count from."""
        return self.file.parent


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a command.

    Attributes
    ----------
    dsn
        Database for reads and writes; ``None`` means the embedded server under `home`.
    read_dsn
        Database for reads, a replica if there is one.
    home
        Folder of the embedded database, the spool, run folders and logs. Any length of path.
    tracking_uri
        MLflow tracking server; ``None`` means a local one on the same database.
    grafana_url
        The Grafana that dashboards are pushed to.
    simulate
        Simulated GPUs, such as ``2xH100,4xA100:7x1g.5gb``.
    interval
        Seconds between two scrapes of a target, 0.1 to 60.
    output_limit
        Bytes that are kept of a run's output; 0 for all.
    tariff
        The file that says what electricity and hardware cost.
    web_config
        The file with TLS and logins of the servers of metrics that are started by hand or as services; the local stack's
        are on 127.0.0.1 alone, and go without.
    artifacts
        Where the local tracking server keeps artifacts, a folder or ``s3://BUCKET/PREFIX``; ``None`` means under `home`.
    executor
        What runs the workloads of files: ``local``, this host, or the name of another.
    lease
        Seconds for which a supervisor or a collector may be silent; then a run has ended, or another collector has its targets.
    grace
        Seconds that a run has to end when it is asked to; then it is killed.
    """

    home: Path
    dsn: str | None = None
    read_dsn: str | None = None
    tracking_uri: str | None = None
    grafana_url: str | None = None
    simulate: str | None = None
    interval: float = 1.0
    output_limit: int = 1 << 30
    tariff: Path | None = None
    web_config: Path | None = None
    artifacts: str | None = None
    executor: str = "local"
    lease: float = LEASE_SECONDS
    grace: float = 5.0

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        **flags: Any,
    ) -> Settings:
        """Read the settings as a command started in `directory` sees them.

        Flags that are ``None`` count as not given. A secret is read from ``NAME_FILE`` where only that is set.

        Raises
        ------
        BadRequest
            ``bench.toml`` cannot be parsed, or holds a setting that does not exist.
        """
        environment = os.environ if environment is None else environment
        found = _from_file(config_file(directory))
        named_environments(directory)  # a file that is wrong anywhere is refused, whatever is asked
        for name, variable in _VARIABLES.items():
            if value := _variable(environment, variable):
                found[name] = value
        found |= {name: value for name, value in flags.items() if value is not None}
        if "output_limit" in found:
            found["output_limit"] = _size("output_limit", found["output_limit"])
        found |= {name: _seconds(name, found[name]) for name in ("lease", "grace") if name in found}
        found |= {name: Path(found[name]).expanduser().absolute() for name in _PATHS if found.get(name)}
        if "artifacts" in found and "://" not in found["artifacts"]:
            found["artifacts"] = str(Path(found["artifacts"]).expanduser().absolute())
        home = Path(found.pop("home", None) or platformdirs.user_data_path("hypergauge"))
        settings = cls(home=home.expanduser().resolve(), **found)
        return settings.validate()

    def validate(self) -> Settings:
        """Refuse what no command could work with; return the settings themselves."""
        if not 0.1 <= self.interval <= 60:
            raise BadRequest(f"interval is {self.interval} s, but must lie between 0.1 s and 60 s")
        if 0 < self.output_limit < _LEAST_OUTPUT:
            raise BadRequest(
                f"output_limit is {self.output_limit} bytes, but must be at least 1 MiB, or 0 for no limit"
            )
        if not 1 <= self.lease <= 3600:
            raise BadRequest(f"lease is {self.lease:g} s, but must lie between 1 s and an hour")
        if not 0 <= self.grace <= 86_400:
            raise BadRequest(f"grace is {self.grace:g} s, but must lie between 0 s and a day")
        return self

    @property
    def database_dir(self) -> Path:
        """Folder of the embedded database."""
        return self.home / "postgres"

    @property
    def runs_dir(self) -> Path:
        """Folder with one folder a run, see `hypergauge.core.files.run_folder`."""
        return self.home / "runs"

    @property
    def spool_dir(self) -> Path:
        """Folder in which the collector keeps what is not yet in the database."""
        return self.home / "spool"

    @property
    def stack_dir(self) -> Path:
        """Folder with one file a service of the local stack, see `hypergauge.core.services`."""
        return self.home / "stack"

    @property
    def log_dir(self) -> Path:
        """Folder of the services' logs."""
        return self.home / "log"

    def carried(self) -> dict[str, Any]:
        """Return the settings as they travel to another process, in JSON."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def received(cls, carried: Mapping[str, Any]) -> Settings:
        """Return the settings that another process has sent."""
        settings: dict[str, Any] = dict(carried)
        return cls(**settings | {name: Path(settings[name]) for name in _PATHS if settings[name] is not None})

    def environment(self) -> dict[str, str]:
        """Return the variables that give a child process the same settings."""
        values = {variable: getattr(self, name) for name, variable in _VARIABLES.items()}
        return {variable: str(value) for variable, value in values.items() if value is not None}


def named_environments(directory: Path | None = None) -> Mapping[str, NamedEnvironment]:
    """Return the sections ``[environments.NAME]`` that a command started in `directory` sees, by name.

    They are no part of `Settings`, which travel to other processes: their variables may hold secrets.

    Raises
    ------
    BadRequest
        As `Settings.load`.
    """
    if (path := config_file(directory)) is None:
        return {}
    return {name: _environment(name, section, path) for name, section in sections(path, "environments").items()}


def config_file(directory: Path | None = None) -> Path | None:
    """Return the ``bench.toml`` that a command started in `directory` sees, ``None`` where there is none."""
    start = (directory or Path.cwd()).absolute()
    return next((path for folder in (start, *start.parents) if (path := folder / CONFIG_FILE).is_file()), None)


def sections(path: Path, kind: str) -> dict[str, Any]:
    """Return what stands below ``[KIND]`` in a ``bench.toml``, such as ``[environments.NAME]``.

    Raises
    ------
    BadRequest
        The file cannot be parsed, or has no such sections under that name.
    """
    found = _content(path).get(kind, {})
    if not isinstance(found, dict):
        raise BadRequest(f"{kind} is no section: write [{kind}.NAME]", file=path)
    return found


def secret(name: str) -> str | None:
    """Return what the variable `name` holds, or the file that ``NAME_FILE`` names where only that is set.

    Raises
    ------
    BadRequest
        The file cannot be read.
    """
    return _variable(os.environ, name)


def _variable(environment: Mapping[str, str], name: str) -> str | None:
    if name in environment:
        return environment[name]
    if file := environment.get(f"{name}_FILE"):
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadRequest(f"{name}_FILE cannot be read: {error.strerror}", file=file) from error
    return None


def _size(name: str, value: int | str) -> int:
    """Return the bytes of a size as people write it: ``1073741824``, ``512MiB``, ``1.5 GB``."""
    if (found := _SIZE.fullmatch(str(value).strip())) is None:
        raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS[name]}")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def _seconds(name: str, value: float | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS[name]}") from None


def _from_file(path: Path | None) -> dict[str, Any]:
    """Return the settings that a file holds."""
    if path is None:
        return {}
    content = _content(path)
    from importlib.metadata import entry_points  # a tenth of what a short command imports

    known = {*_VARIABLES, "interval", *_SECTIONS}
    for name in (name for name in content if name not in known):
        if not (isinstance(content[name], dict) and entry_points(group=EXECUTORS, name=name)):
            raise BadRequest(f"unknown setting {name!r}{did_you_mean(name, sorted(known))}", file=path)
    content = {name: value for name, value in content.items() if name in known and name not in _SECTIONS}
    for name, value in content.items():
        kinds = _KINDS_OF_NUMBERS.get(name, (str,))
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS.get(name, 'a string')}", file=path)
    for name in {*_PATHS, "artifacts"} & content.keys():
        # Relative to the file that says it, whatever the working directory.
        if "://" not in content[name]:
            content[name] = str(path.parent / Path(content[name]).expanduser())
    return content


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"not valid TOML: {error}", file=path) from error


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
