"""One stack for all end-to-end tests, held up from the first to the last."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.home import Home


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """A home in a short folder, with its stack up."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-e2e-") as folder,
        Home(Path(folder) / "home", Path(folder) / "work").stack() as home,
    ):
        yield home
