"""Demo experiment: its files, its id, and a GPU for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.resources.abc import Traversable
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.gpu import Inventory, inventory

__all__ = ["DEMO_EXPERIMENT", "number_demo", "with_a_gpu", "write_template"]

DEMO_EXPERIMENT = 0  # so that users' experiments start at 1
_GPUS = "1xH100"


def write_template(files: Iterable[tuple[str, Traversable]], folder: Path, *, overwrite: bool) -> list[Path]:
    """Write copies of files to a folder, each under its name, and return their paths.

    Raises
    ------
    BadRequest
        A file exists already, and `overwrite` is false; nothing is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, source in files:
        path = folder / name
        if path.exists() and not overwrite:
            raise BadRequest(
                "it exists already; nothing was written; `bench init FOLDER` writes to another folder", file=path
            )
        written.append((path, source.read_bytes()))
    for path, content in written:
        write_atomically(path, content, 0o644)
    return [path for path, _ in written]


def number_demo(path: Path, experiment: int) -> None:
    """Set the experiment id in each row of the demo's file."""
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    numbered = [",".join([str(experiment), *row.split(",")[1:]]) for row in rows]
    write_atomically(path, "\n".join([header, *numbered, ""]), 0o644)


def with_a_gpu(settings: Settings) -> tuple[Settings, Inventory]:
    """Return the settings and this host's GPUs; simulated GPUs if it has none."""
    gpus = inventory(settings.simulate, settings.home)
    if not gpus.gpus:
        settings = replace(settings, simulate=_GPUS)
        gpus = inventory(settings.simulate, settings.home)
    return settings, gpus
