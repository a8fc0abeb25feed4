"""A run's output is bounded without its help, and reads as its beginning, what is left out, and its newest part."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from hypergauge.core.output import LeftOut, OutputReader, whole_output
from hypergauge.scheduler.supervisor.output_limit import OutputLimit
from hypergauge.scheduler.supervisor.pausing import paused
from tests.support.waiting import HUNG_SECONDS

LIMIT = 1 << 20
LEFT_OUT = re.compile(r"… [0-9.]+ (?:bytes|[KMG]iB) left out …\n")
# Writes lines with the writer's name and a number, and ends without a chance to flush anything.
WRITER = """
import os, signal, sys
name, first, last, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode().decode("unicode_escape")
for number in range(first, last):
    os.write(1, f"{name} {number:08} {'x' * (number % 80)}{end}".encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def cannot_punch(_file: int, _start: int, _end: int) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.fixture(params=[pytest.param(None, id="punching"), pytest.param(cannot_punch, id="moving")])
def punch(request: pytest.FixtureRequest) -> Callable[[int, int, int], None] | None:
    """Each way to shorten a file in turn."""
    chosen: Callable[[int, int, int], None] | None = request.param
    return chosen


class Run:
    """Processes that append to one output."""

    def __init__(self, folder: Path) -> None:
        self.run_id = uuid.uuid4().hex
        self.output = folder / "output.log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file, env={**os.environ, "BENCH_RUN_ID": self.run_id})
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
def limited(run: Run, punch: Callable[[int, int, int], None] | None, limit: int = LIMIT) -> Iterator[None]:
    watched = OutputLimit(run.run_id, run.output, limit, punch)
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


def test_the_beginning_and_the_newest_part_stay_and_nothing_of_them_is_lost(
    run: Run, punch: Callable[[int, int, int], None] | None
) -> None:
    with limited(run, punch):
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


def test_of_several_that_write_at_once_none_loses_a_line(
    run: Run, punch: Callable[[int, int, int], None] | None
) -> None:
    with limited(run, punch):
        for name in "abc":
            run.write(name, 60_000)
    head, tail = LEFT_OUT.split(run.read().decode())
    for name in "abc":
        first, last = numbers(head, name), numbers(tail, name)
        assert first == list(range(len(first)))
        assert last == list(range(60_000 - len(last), 60_000))
    assert head.endswith("\n")
    assert len(head.splitlines()) + len(tail.splitlines()) == sum(len(numbers(head + tail, name)) for name in "abc")


def test_who_follows_meanwhile_sees_what_was_written_in_its_order(
    run: Run, punch: Callable[[int, int, int], None] | None
) -> None:
    seen = bytearray()
    with closing(OutputReader(run.output)) as reader:
        with limited(run, punch):
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


def test_output_without_lines_is_bounded_too(run: Run, punch: Callable[[int, int, int], None] | None) -> None:
    with limited(run, punch):
        run.write("a", 100_000, end="\\r")
    head, tail = LEFT_OUT.split(run.read().decode())
    written = lines("a", 0, 100_000).replace("\n", "\r")
    assert head.endswith("\n")  # so that what is left out stands on a line of its own
    assert written.startswith(head[:-1])
    assert written.endswith(tail)
    assert len(head) + len(tail) <= LIMIT


def test_an_output_that_is_not_too_long_stays_as_it_is(run: Run) -> None:
    with limited(run, None):
        run.write("a", 5000)
    written = lines("a", 0, 5000).encode()
    assert run.read() == run.output.read_bytes() == written
    with whole_output(run.output) as path:
        assert path == run.output


def test_without_a_limit_all_is_kept(run: Run) -> None:
    with limited(run, None, limit=0):
        run.write("a", 50_000)
    assert run.read() == lines("a", 0, 50_000).encode()


def test_what_is_handed_on_is_a_file_that_reads_the_same(
    run: Run, punch: Callable[[int, int, int], None] | None
) -> None:
    with limited(run, punch):
        run.write("a", 50_000)
    with whole_output(run.output) as path:
        assert path.name == run.output.name
        assert path.read_bytes() == run.read()
        assert path.stat().st_size < LIMIT
    assert {found.name for found in run.output.parent.iterdir()} == {"output.log", "output.left"}


def test_a_run_that_empties_its_output_itself_starts_anew(run: Run) -> None:
    with limited(run, None):
        run.write("a", 50_000)
    assert LeftOut.read(run.output).end
    os.truncate(run.output, 0)
    with limited(run, None):
        run.write("b", 100)
    assert run.read() == lines("b", 0, 100).encode()


def test_a_crash_before_the_cut_shows_no_line_twice(run: Run) -> None:
    """What has been moved, and stands at its old place as well while the file still has its old length."""
    run.output.write_bytes(b"head\n" + b"tail\n" + b"old\n" + b"tail\n")
    LeftOut(start=5, end=14, moved=9, cut=(19, 10)).write(run.output)
    assert run.read() == "head\n… 9 bytes left out …\ntail\n".encode()
    os.truncate(run.output, 10)
    assert run.read() == "head\n… 9 bytes left out …\ntail\n".encode()


def test_a_paused_run_stands_still_and_goes_on_afterwards(run: Run) -> None:
    child = "while True: print('.', flush=True)"
    parent = run.start(
        sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    )
    stopped = run.start("sleep", "60")
    psutil.Process(stopped.pid).suspend()
    try:
        grown(run.output, 0)
        with paused(run.run_id) as still:
            assert still
            size = run.output.stat().st_size
            time.sleep(0.1)
            assert run.output.stat().st_size == size
        grown(run.output, size)
        assert psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED
        assert psutil.Process(parent.pid).status() != psutil.STATUS_STOPPED
    finally:
        for process in psutil.Process(parent.pid).children():
            process.kill()


def grown(output: Path, size: int) -> None:
    """Wait until a file is larger than that."""
    deadline = time.monotonic() + HUNG_SECONDS
    while not output.exists() or output.stat().st_size <= size:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_left_out_is_recorded_as_others_can_read_it(tmp_path: Path) -> None:
    LeftOut(1, 2).write(tmp_path / "output.log")
    assert json.loads((tmp_path / "output.left").read_text()) == {"start": 1, "end": 2, "moved": 0, "cut": None}
    assert LeftOut.read(tmp_path / "output.log") == LeftOut(1, 2)
