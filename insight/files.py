"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["appearing"]


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Provide a file to write to, which becomes `path` in the end, and goes where something goes wrong."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
