"""Copies of a run's output; a closed reader does not disturb the run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.dashboards.terminal.output import OutputCopies
from tests.support.waiting import HUNG_SECONDS


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create({})
    return made


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + HUNG_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_output_is_passed_on_during_the_run(folder: RunFolder, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = OutputCopies(folder.path.parent)
    output.started("run")
    seen = bytearray()

    def has(text: bytes) -> bool:
        seen.extend(capfdbinary.readouterr().out)
        return bytes(seen) == text

    with folder.output.open("ab", buffering=0) as file:
        file.write(b"first\n")
        until(lambda: has(b"first\n"))
        file.write(b"\xff no text, no end of line")
    output.ended("run")
    assert has(b"first\n\xff no text, no end of line")
    output.ended("run")


def test_what_was_written_last_is_passed_on(folder: RunFolder, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = OutputCopies(folder.path.parent)
    output.started("run")
    folder.output.write_bytes(b"all\n" * 100_000)
    output.ended("run")
    assert capfdbinary.readouterr().out == b"all\n" * 100_000


def test_a_reader_that_has_exited_ends_nothing(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        output = OutputCopies(folder.path.parent)
        output.started("run")
        folder.output.write_bytes(b"nobody reads this\n")
        output.ended("run")
        closed.write("neither this")
