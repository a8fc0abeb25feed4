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

__all__ = ["GROUP", "Exporter", "ExporterFactory", "ExporterOptions", "Registry"]

GROUP = "hypergauge.exporters"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExporterOptions:
    """Options of an exporter, see `hypergauge.core.config.settings.Settings`.

    With `own_runs` it tells of the runs of this home alone, since each home on the host has an exporter of its own.
    """

    home: Path
    simulate: str | None = None
    own_runs: bool = False

    @property
    def runs_dir(self) -> Path:
        """Folder with one folder a run, see `hypergauge.core.files.run_folder`."""
        return self.home / "runs"


class Exporter(Protocol):
    """A pure reading of one source into metric families. Nothing is read before it is asked for.

    One that holds something open, such as a driver or a process, may have a ``close()`` too, which takes no arguments. It is
    called when the exporter stops, never during a reading; a later reading opens it again.
    """

    @property
    def name(self) -> str:
        """The name by which people ask for it."""

    def check(self) -> str | None:
        """Return why this exporter cannot work on this host, ``None`` where it can."""

    def collect(self) -> Iterable[Metric]:
        """Read the source once. A figure that the source does not have is left out; any exception may be raised.

        Where another exporter's form is to be kept to the byte, families may be `hypergauge.exporters.serving.text.WrittenFamily`.
        """


ExporterFactory = Callable[[ExporterOptions], Exporter]


class Registry(Mapping[str, ExporterFactory]):
    """Factories of exporters by name."""

    def __init__(self) -> None:
        self._factories: dict[str, ExporterFactory] = {}

    @classmethod
    def load(cls, found: Iterable[EntryPoint] | None = None) -> Registry:
        """Return what the installed distributions offer, or the entry points that are given.

        One that cannot be imported is logged and left out, so that a third party's fault costs nobody else an exporter.

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
            There is one of that name already.
        """
        if name in self._factories:
            raise BadRequest(
                f"two exporters are called {name!r}: {_origin(self._factories[name])} and {_origin(factory)}"
            )
        self._factories[name] = factory

    def create(self, name: str, options: ExporterOptions) -> Exporter:
        """Make the exporter called `name`.

        Raises
        ------
        BadRequest
            There is none.
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
