"""Data files of an installed package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["package_files"]

# Installers compile every ``.py`` file of a package, and templates are such files.
_CACHE = "__pycache__"


def package_files(package: str, *folder: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files in a folder of a package and below, by name, each with its path relative to the folder.

    Bytecode is left out.
    """
    yield from _below(files(package).joinpath(*folder), "")


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != _CACHE:
                yield from _below(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".pyc", ".pyo")):
            yield f"{prefix}{entry.name}", entry
