"""Output where the terminal's encoding lacks characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-P", "-m", "hypergauge.cli"]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize(
    "words", [["init", "\u2026\u00e9\u65e5"], ["init", "--help"], ["rules", "list"], ["exporter", "list", "--json"]]
)
def test_a_character_that_the_encoding_lacks_is_replaced(encoding: str, words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, *words],
        env={**os.environ, "PYTHONIOENCODING": encoding, "BENCH_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert done.stdout.decode(encoding)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_error_in_such_an_encoding_has_its_status(encoding: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "schedule", "\u65e5\u2026.csv"],
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict", "BENCH_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 2, done.stderr.decode(errors="replace")
    assert b"error:" in done.stderr
    assert b"Traceback" not in done.stderr
