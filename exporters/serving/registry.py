"""Registry of exporters: entry points of the group ``hypergauge.exporters``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from prometheus_client.core import Metric

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["GROUP", "Exporter", "ExporterFactory", "ExporterOptions", "Registry", "names"]

GROUP = "hypergauge.exporters"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExporterOptions:
    """Options of an exporter, see `hypergauge.core.config.settings.Settings`.

    `own_runs` limits the exporter to the runs of this home, where each home on the host has an exporter of its own.
    """

    home: Path
    simulate: str | None = None
    own_runs: bool = False

    @property
    def runs_dir(self) -> Path:
        """Folder with a folder for each run, see `hypergauge.core.files.run_folder`."""
        return self.home / "runs"


class Exporter(Protocol):
    """Reader of one source into metric families. It reads nothing before `collect`.

    An exporter that keeps a driver or a process open may have a method ``close()`` without arguments. The server calls it
    when the exporter stops or nobody scrapes it, never during `collect`; a later `collect` opens the source again.
    """

    @property
    def name(self) -> str:
        """Name on the command line and in experiment files."""

    def check(self) -> str | None:
        """Return the reason why the exporter cannot work on this host, ``None`` where it can."""

    def collect(self) -> Iterable[Metric]:
        """Read the source once. It leaves out a metric that the source lacks, and may raise any exception.

        `hypergauge.exporters.serving.text.WrittenFamily` reproduces another exporter's lines byte by byte.
        """


def names() -> list[str]:
    """Return the names of installed exporters, without importing them."""
    return [one.name for one in entry_points(group=GROUP)]


ExporterFactory = Callable[[ExporterOptions], Exporter]


class Registry(Mapping[str, ExporterFactory]):
    """Factories of exporters by name."""

    def __init__(self) -> None:
        self._factories: dict[str, ExporterFactory] = {}

    @classmethod
    def load(cls, found: Iterable[EntryPoint] | None = None) -> Registry:
        """Return the exporters of installed distributions, or those of the given entry points.

        An exporter that cannot be imported is logged and left out; the others remain.

        Raises
        ------
        BadRequest
            Two exporters have the same name.
        """
        registry = cls()
        for entry_point in entry_points(group=GROUP) if found is None else found:
            try:
                factory = entry_point.load()
            except Exception:  # noqa: BLE001 - an import can raise anything
                _log.warning(
                    "exporter %r is left out: %s cannot be loaded", entry_point.name, entry_point.value, exc_info=True
                )
            else:
                registry.register(entry_point.name, factory)
        return registry

    def register(self, name: str, factory: ExporterFactory) -> None:
        """Add an exporter.

        Raises
        ------
        BadRequest
            The name is taken.
        """
        if name in self._factories:
            raise BadRequest(
                f"two exporters are called {name!r}: {_origin(self._factories[name])} and {_origin(factory)}"
            )
        self._factories[name] = factory

    def create(self, name: str, options: ExporterOptions) -> Exporter:
        """Return a new exporter by `name`.

        Raises
        ------
        BadRequest
            No exporter has that name.
        """
        if name not in self._factories:
            raise BadRequest(f"unknown exporter {name!r}{did_you_mean(name, sorted(self._factories))}")
        return self._factories[name](options)

    def __getitem__(self, name: str) -> ExporterFactory:
        return self._factories[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._factories))

    def __len__(self) -> int:
        return len(self._factories)


def _origin(factory: ExporterFactory) -> str:
    return f"{factory.__module__}:{getattr(factory, '__qualname__', factory)}"
