"""Fixtures of the scheduler's tests."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.support.experiment_files import WriteCsv
from tests.support.fakes.profilers import NSYS_EVENTS


@pytest.fixture
def write_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteCsv:
    """Return a function that writes ``experiments.csv`` next to a ``train.py``, outside the working directory."""
    folder, elsewhere = tmp_path / "files", tmp_path / "work"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (folder / "train.py").touch()

    def write_csv(content: str | bytes) -> Path:
        path = folder / "experiments.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_csv


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of Nsight Systems."""
    path = tmp_path / "nsys.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(NSYS_EVENTS)
        connection.commit()
    return path
