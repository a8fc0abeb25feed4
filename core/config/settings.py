"""Settings: flag > environment > ``bench.toml`` in the working directory or above > default."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from hypergauge.core.config.bench_toml import config_file, content
from hypergauge.core.config.environments import named_environments
from hypergauge.core.config.profilers import profiler_options
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = [
    "EXECUTORS",
    "LEASE_SECONDS",
    "VARIABLES",
    "Settings",
    "secret",
]

# Variables of the environment by the names of the settings.
VARIABLES = {
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
    "peak_flops": "BENCH_PEAK_FLOPS",
    "quiet_cores": "BENCH_QUIET_CORES",
}
_PATHS = ("home", "tariff", "web_config")
# Settings that are not strings, with their types in bench.toml.
_NUMBERS = {
    "interval": "a number",
    "output_limit": "a size such as 512MiB",
    "lease": "a number of seconds",
    "grace": "a number of seconds",
    "peak_flops": "a number of floating-point operations per second",
    "quiet_cores": "a number of cores",
}
# Sections outside `Settings`, which travel to other processes.
_SECTIONS = ("environments", "profilers", "rules", "actions", "slurm")
# Third-party executors are entry points of this group, and may have sections of their names.
EXECUTORS = "hypergauge.executors"
_KINDS_OF_NUMBERS: Mapping[str, tuple[type, ...]] = {
    "interval": (int, float), "output_limit": (int, str), "lease": (int, float), "grace": (int, float),
    "peak_flops": (int, float), "quiet_cores": (int, float),
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kMGT]i?)?B)?", re.IGNORECASE)
_UNITS = {"": 1} | {unit + i: base ** (n + 1) for n, unit in enumerate("kmgt") for i, base in (("", 1000), ("i", 1024))}
_LEAST_OUTPUT = 1 << 20
# Leases are renewed every third of their duration: on a busy host, a renewal may be late by two thirds.
LEASE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a command. The texts below are those of the reference.

    Attributes
    ----------
    home
        Folder of the embedded database, run folders, spool, artifacts and logs; its path may have any length. By default
        the user's data folder, such as ``~/.local/share/hypergauge``.
    dsn
        Connection string of the database, for reads and writes. By default that of an embedded PostgreSQL under ``home``.
    read_dsn
        Connection string for queries, with a login that may only read, such as that of a replica. By default ``dsn``.
        Commands that write refuse a ``read_dsn`` without a ``dsn``.
    tracking_uri
        MLflow server (``http…``), or a store (``sqlite:///mlflow.db``, a folder) for which a local server is started. By
        default a local server on the same database, in the schema ``mlflow``.
    grafana_url
        Grafana of dashboards and links. By default that of the local stack, else ``http://127.0.0.1:3000``.
    simulate
        Simulated GPUs, such as ``2xH100,4xA100:7x1g.5gb``. By default the real ones.
    interval
        Seconds between two scrapes of a target, 0.1 to 60.
    output_limit
        Size of a run's output beyond which its middle is removed, such as ``512MiB``: at least 1 MiB, or 0 for no limit.
    tariff
        File with the prices of electricity and hardware. By default there is none.
    web_config
        File with TLS and logins of exporters, collector and rules that users start by hand or as services. By default
        they serve plain HTTP on 127.0.0.1, as the servers of the local stack always do.
    artifacts
        Artifact store of the local MLflow server: a folder, or ``s3://BUCKET/PREFIX``. By default the folder
        ``artifacts`` under ``home``.
    executor
        Executor of the workloads of files: ``local`` for this host, ``slurm``, or the name of an installed one.
    lease
        Seconds for which a run's supervisor or a collector may be silent, 1 to 3600. After that the run counts as ended,
        and another collector takes the targets.
    grace
        Seconds between SIGTERM and SIGKILL when a run is stopped, for a last checkpoint perhaps; at most a day.
    peak_flops
        Peak FLOPS of a GPU whose model is not in ``bench.gpu_peaks``, or of a host without GPUs, such as ``4.2e12``. By
        default such runs have no model FLOPs utilization.
    quiet_cores
        Cores that other processes may use on a host that counts as quiet, see
        [schedules](schedules.md#other-programs-on-the-host). By default 0.3, or 5 % of the cores if that is more.
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
    peak_flops: float | None = None
    quiet_cores: float | None = None

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        **flags: Any,
    ) -> Settings:
        """Read the settings of a command in `directory`.

        Flags that are ``None`` count as absent. A secret is read from ``NAME_FILE`` if only that is set.

        Raises
        ------
        BadRequest
            ``bench.toml`` cannot be parsed, or has an unknown setting.
        """
        environment = os.environ if environment is None else environment
        found = _from_file(config_file(directory))
        named_environments(directory)  # every command refuses a file with an error anywhere
        profiler_options(directory)
        for name, variable in VARIABLES.items():
            if value := _variable(environment, variable):
                found[name] = value
        found |= {name: value for name, value in flags.items() if value is not None}
        if "output_limit" in found:
            found["output_limit"] = _size("output_limit", found["output_limit"])
        found |= {
            name: _number(name, found[name])
            for name in ("lease", "grace", "peak_flops", "quiet_cores")
            if name in found
        }
        found |= {name: _expanded(name, found[name]).absolute() for name in _PATHS if found.get(name)}
        if "artifacts" in found and "://" not in found["artifacts"]:
            found["artifacts"] = str(_expanded("artifacts", found["artifacts"]).absolute())
        home = _expanded("home", found.pop("home", None) or platformdirs.user_data_path("hypergauge"))
        settings = cls(home=home.resolve(), **found)
        return settings.validate()

    def validate(self) -> Settings:
        """Refuse values that no command can use; return the settings."""
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
        if self.peak_flops is not None and not 0 < self.peak_flops < 1e24:
            raise BadRequest(f"peak_flops is {self.peak_flops:g}, but must be a number of FLOPS above 0")
        if self.quiet_cores is not None and not 0 <= self.quiet_cores < 1e6:
            raise BadRequest(f"quiet_cores is {self.quiet_cores:g}, but must be a number of cores, 0 or more")
        return self

    @property
    def database_dir(self) -> Path:
        """Folder of the embedded database."""
        return self.home / "postgres"

    @property
    def runs_dir(self) -> Path:
        """Folder with one folder per run, see `hypergauge.core.files.run_folder`."""
        return self.home / "runs"

    @property
    def spool_dir(self) -> Path:
        """Folder of samples that are not yet in the database."""
        return self.home / "spool"

    @property
    def stack_dir(self) -> Path:
        """Folder with one file per service of the local stack, see `hypergauge.core.services`."""
        return self.home / "stack"

    @property
    def log_dir(self) -> Path:
        """Folder of the services' logs."""
        return self.home / "log"

    def carried(self) -> dict[str, Any]:
        """Return the settings for another process, ready for JSON."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def received(cls, carried: Mapping[str, Any]) -> Settings:
        """Return the settings that another process sent."""
        settings: dict[str, Any] = dict(carried)
        return cls(**settings | {name: Path(settings[name]) for name in _PATHS if settings[name] is not None})

    def environment(self) -> dict[str, str]:
        """Return the variables that give a child process the same settings."""
        values = {variable: getattr(self, name) for name, variable in VARIABLES.items()}
        return {variable: str(value) for variable, value in values.items() if value is not None}


def secret(name: str) -> str | None:
    """Return the value of the variable `name`, or the content of the file in ``NAME_FILE`` if only that is set.

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
    """Return the bytes of a size in common notation: ``1073741824``, ``512MiB``, ``1.5 GB``."""
    if (found := _SIZE.fullmatch(str(value).strip())) is None:
        raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS[name]}")
    size = float(found[1]) * _UNITS[(found[2] or "").lower()]
    if not math.isfinite(size):
        raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS[name]}")
    return int(size)


def _number(name: str, value: float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS[name]}") from None


def _expanded(name: str, path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadRequest(f"{name} is {str(path)!r}, but must be in the home of a user who exists") from None


def _from_file(path: Path | None) -> dict[str, Any]:
    """Return the settings in a file."""
    if path is None:
        return {}
    found = content(path)
    from importlib.metadata import entry_points  # a tenth of a short command's imports

    known = {*VARIABLES, "interval", *_SECTIONS}
    for name in (name for name in found if name not in known):
        if not (isinstance(found[name], dict) and entry_points(group=EXECUTORS, name=name)):
            raise BadRequest(f"unknown setting {name!r}{did_you_mean(name, sorted(known))}", file=path)
    found = {name: value for name, value in found.items() if name in known and name not in _SECTIONS}
    for name, value in found.items():
        kinds = _KINDS_OF_NUMBERS.get(name, (str,))
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise BadRequest(f"{name} is {value!r}, but must be {_NUMBERS.get(name, 'a string')}", file=path)
    for name in {*_PATHS, "artifacts"} & found.keys():
        # Relative to the file, not to the working directory.
        if "://" not in found[name]:
            found[name] = str(path.parent / _expanded(name, found[name]))
    return found
