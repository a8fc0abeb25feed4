"""A small world in a real database, in each flavour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sql.database import Database
from tests.world import World


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """An empty world in each flavour."""
    with database.connect() as connection:
        yield World(database, tmp_path / "spool", connection)
