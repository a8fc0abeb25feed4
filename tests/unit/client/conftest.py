"""Fixtures of tests of the client."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.support.watched import Train, trained


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Return a function that runs a script which watches its model; see `trained`."""
    return functools.partial(trained, tmp_path)
