"""Settings with which a service of the local stack starts, and how they differ from those of a later command."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import VARIABLES, Settings
from hypergauge.core.listing import joined
from hypergauge.core.services import Service
from hypergauge.sql.server.database import connection_parts

__all__ = ["Difference", "StartSettings", "describe", "differences", "start_settings"]

# Settings on which a service depends. Commands read the others, or pass them to each run.
_COLLECTOR = ("dsn", "tracking_uri", "simulate", "interval", "lease")
_SERVICES: Mapping[str, tuple[str, ...]] = {
    "collector": _COLLECTOR,
    "rules": ("dsn", "lease"),
    "mlflow": ("dsn", "tracking_uri", "artifacts"),
    "grafana": ("dsn", "read_dsn", "tracking_uri"),
}
_EXPORTER = ("simulate",)
_CONNECTIONS = ("dsn", "read_dsn")


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Settings of a service by variable, without secrets, and a digest of them with their secrets."""

    shown: dict[str, str]
    digest: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Setting of a running service that a command has differently; both as shown to the user."""

    started_with: str
    wanted: str


def start_settings(name: str, settings: Settings) -> StartSettings:
    """Return the settings of the service `name`."""
    shown: dict[str, str] = {}
    digest = hashlib.sha256()
    for setting in _SERVICES.get(name, _EXPORTER):
        if (value := getattr(settings, setting)) is None:
            continue
        key = VARIABLES.get(setting, setting)
        if setting in _CONNECTIONS:
            # Two texts for the same database are equal, and PGHOST and the like count.
            parts = connection_parts(value)
            shown[key] = " ".join(f"{part}={parts[part]}" for part in sorted(parts) if part != "password")
            digest.update(json.dumps(parts, sort_keys=True).encode())
        else:
            shown[key] = without_login(f"{value:g}" if isinstance(value, float) else str(value))
            digest.update(f"{key}={value}\n".encode())
    return StartSettings(shown, digest.hexdigest())


def differences(service: Service, settings: Settings) -> list[Difference]:
    """Return the settings that a running service was started with and a command has differently."""
    if service.settings is None:
        return []
    current = start_settings(service.name, settings)
    keys = sorted({*service.settings, *current.shown})
    found = [
        Difference(_shown(key, service.settings.get(key)), _shown(key, current.shown.get(key)))
        for key in keys
        if service.settings.get(key) != current.shown.get(key)
    ]
    if not found and service.digest != current.digest:
        secrets = " or ".join(
            key for key in keys if key in (VARIABLES[name] for name in (*_CONNECTIONS, "tracking_uri"))
        )
        found.append(Difference(f"another login in {secrets}", "its own"))
    return found


def describe(outdated: Mapping[str, Iterable[Difference]]) -> tuple[str, str, str]:
    """Return services, the settings that they were started with, and those of the command, each as a list in words."""
    distinct = list(dict.fromkeys(one for those in outdated.values() for one in those))
    others = [name for name in outdated if not name.startswith("exporter-")]
    exporters = ["exporters"] if len(others) < len(outdated) else []
    return (
        joined([*exporters, *others]),
        joined([one.started_with for one in distinct]),
        joined([one.wanted for one in distinct]),
    )


def _shown(key: str, value: str | None) -> str:
    return f"no {key}" if value is None else f"{key}={value}"
