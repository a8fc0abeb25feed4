"""The limit on a run's output: its beginning, the omitted size, and its newest part."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hypergauge.core.output import LeftOut, OutputReader, whole_output
from hypergauge.scheduler.supervisor.output_limit import OutputLimit
from tests.support.waiting import HUNG_SECONDS

LIMIT = 1 << 20
LEFT_OUT = re.compile(r"… [0-9.]+ (?:bytes|[KMG]iB) left out …\n")
# Writes lines with the writer's name and a number, and ends without a flush.
WRITER = """
import os, signal, sys
name, first, last, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode().decode("unicode_escape")
for number in range(first, last):
    os.write(1, f"{name} {number:08} {'x' * (number % 80)}{end}".encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def cannot_punch(_file: int, _start: int, _end: int) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


class Run:
    """Processes that append to one output."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output.log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file)
        self.started.append(process)
        return process

    def write(self, name: str, lines: int, first: int = 0, end: str = "\\n") -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", WRITER, name, str(first), str(first + lines), end)

    def wait(self) -> None:
        for process in self.started:
            process.wait(HUNG_SECONDS)

    def read(self) -> bytes:
        with closing(OutputReader(self.output)) as reader:
            return b"".join(reader.new())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@contextmanager
def limited(run: Run, limit: int = LIMIT, punch: Callable[[int, int, int], None] | None = None) -> Iterator[None]:
    watched = OutputLimit(run.output, limit, punch)
    watched.start()
    try:
        yield
        run.wait()
    finally:
        watched.end()


def lines(name: str, first: int, last: int) -> str:
    return "".join(f"{name} {number:08} {'x' * (number % 80)}\n" for number in range(first, last))


def numbers(text: str, name: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{name} (\d{{8}}) x*$", text, re.MULTILINE)]


def test_the_beginning_and_the_newest_part_stay_and_nothing_of_them_is_lost(run: Run) -> None:
    with limited(run):
        run.write("a", 120_000)
    head, tail = LEFT_OUT.split(run.read().decode())
    everything = lines("a", 0, 120_000)
    assert everything.startswith(head)
    assert everything.endswith(tail)
    assert len(head) > LIMIT // 5
    assert len(tail) > LIMIT // 3
    left = LeftOut.read(run.output)
    assert len(head) + (left.end - left.start) + len(tail) == len(everything)
    assert run.output.stat().st_blocks * 512 <= LIMIT + 16384


def test_of_several_that_write_at_once_none_loses_a_line(run: Run) -> None:
    with limited(run):
        for name in "abc":
            run.write(name, 60_000)
    head, tail = LEFT_OUT.split(run.read().decode())
    for name in "abc":
        first, last = numbers(head, name), numbers(tail, name)
        assert first == list(range(len(first)))
        assert last == list(range(60_000 - len(last), 60_000))
    assert head.endswith("\n")
    assert len(head.splitlines()) + len(tail.splitlines()) == sum(len(numbers(head + tail, name)) for name in "abc")


def test_who_follows_meanwhile_sees_what_was_written_in_its_order(run: Run) -> None:
    seen = bytearray()
    with closing(OutputReader(run.output)) as reader:
        with limited(run):
            writer = run.write("a", 120_000)
            while writer.poll() is None:
                seen += b"".join(reader.new())
        seen += b"".join(reader.new())
    parts = LEFT_OUT.split(seen.decode())
    found = [number for part in parts for number in numbers(part, "a")]
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, 119_999)
    written = lines("a", 0, 120_000)
    assert all(part in written for part in parts)


def test_output_without_lines_is_bounded_too(run: Run) -> None:
    with limited(run):
        run.write("a", 100_000, end="\\r")
    head, tail = LEFT_OUT.split(run.read().decode())
    written = lines("a", 0, 100_000).replace("\n", "\r")
    assert head.endswith("\n")  # so that the omitted size is on a line of its own
    assert written.startswith(head[:-1])
    assert written.endswith(tail)
    assert len(head) + len(tail) <= LIMIT


def test_an_output_that_is_not_too_long_stays_as_it_is(run: Run) -> None:
    with limited(run):
        run.write("a", 5000)
    written = lines("a", 0, 5000).encode()
    assert run.read() == run.output.read_bytes() == written
    with whole_output(run.output) as path:
        assert path == run.output


def test_without_a_limit_all_is_kept(run: Run) -> None:
    with limited(run, limit=0):
        run.write("a", 50_000)
    assert run.read() == lines("a", 0, 50_000).encode()


def test_what_is_handed_on_is_a_file_that_reads_the_same(run: Run) -> None:
    with limited(run):
        run.write("a", 50_000)
    with whole_output(run.output) as path:
        assert path.name == run.output.name
        assert path.read_bytes() == run.read()
        assert path.stat().st_size < LIMIT
    assert {found.name for found in run.output.parent.iterdir()} == {"output.log", "output.left"}


def test_a_run_that_empties_its_output_itself_starts_anew(run: Run) -> None:
    with limited(run):
        run.write("a", 50_000)
    assert LeftOut.read(run.output).end
    os.truncate(run.output, 0)
    with limited(run):
        run.write("b", 100)
    assert run.read() == lines("b", 0, 100).encode()


def test_a_file_system_without_holes_keeps_the_whole_output(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with limited(run, punch=cannot_punch):
        run.write("a", 120_000)
    assert run.read() == run.output.read_bytes() == lines("a", 0, 120_000).encode()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_is_left_out_is_recorded_as_others_can_read_it(tmp_path: Path) -> None:
    LeftOut(1, 2).write(tmp_path / "output.log")
    assert json.loads((tmp_path / "output.left").read_text()) == {"start": 1, "end": 2}
    assert LeftOut.read(tmp_path / "output.log") == LeftOut(1, 2)
