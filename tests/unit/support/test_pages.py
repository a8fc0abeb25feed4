"""Pages as tests: processes in the background, and programs that a machine lacks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.home import Home
from tests.support.pages import Reader, missing_line, run_page


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    (tmp_path / "work").mkdir()
    variables = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return Reader(Home(tmp_path / "home", tmp_path / "work", variables), tmp_path / "demo.capsule")


def test_a_process_in_the_background_runs_until_the_page_ends(reader: Reader) -> None:
    page = reader.home.folder / "page.md"
    page.write_text(
        "```sh\nsleep 600 &\necho $! | tee sleeper\n```\n\n```text\n7\n```\n\n```sh\nkill -0 $(cat sleeper)\n```\n"
    )
    assert run_page(page, reader) == 2
    sleeper = psutil.Process(int((reader.home.folder / "sleeper").read_text()))
    reader.end()
    assert not sleeper.is_running()


def test_a_block_is_left_out_where_its_program_is_missing(reader: Reader) -> None:
    page = reader.home.folder / "page.md"
    block = '<!--- skip: next if(missing("{}"), "not installed") --->\n```sh\necho ran >> blocks\n```\n\n'
    page.write_text(block.format("a-program-of-nobody") + block.format("sh"))
    assert run_page(page, reader) == 1
    assert (reader.home.folder / "blocks").read_text() == "ran\n"


@pytest.mark.parametrize("line", ["duration  49.8 s  1:00", "duration  652 ms  12.0 s", "duration  1:02:03  61.5 s"])
def test_a_duration_may_be_shown_in_another_unit(line: str) -> None:
    assert missing_line("duration  2.8 s  4.8 s", f"name\n{line}\n") is None


@pytest.mark.parametrize("line", ["duration  2.8 s", "duration  2.8 s  small", "makespan  2.8 s  4.8 s"])
def test_another_line_is_no_duration(line: str) -> None:
    assert missing_line("duration  2.8 s  4.8 s", line) == "duration  2.8 s  4.8 s"
