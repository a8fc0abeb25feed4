"""Last line of a tool: real processes that print, fall silent, end, and must not outlive their parent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from hypergauge.exporters.serving import child
from hypergauge.exporters.serving import tool as module
from hypergauge.exporters.serving.pace import Pace
from hypergauge.exporters.serving.tool import Tool
from tests.support.waiting import HUNG_SECONDS

# Its pid and a count, twenty times per second.
SPEAKS = "i=0; while :; do i=$((i + 1)); echo $$ $i; sleep 0.05; done"


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pace of one second, however often a test reads."""
    monkeypatch.setattr(Pace, "scraped", lambda _: 1.0)


@pytest.fixture
def shell() -> Iterator[Callable[..., Tool]]:
    """Return a function that starts tools with shell scripts, which are ended afterwards."""
    tools: list[Tool] = []

    def make(script: str, pause: float = 0.1) -> Tool:
        tools.append(Tool("sh", "-c", script, pause=pause))
        return tools[-1]

    yield make
    for made in tools:
        made.close()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + HUNG_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; it may be an unreaped zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_is_restarted_for_another_pace(shell: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the milliseconds between two lines as its last argument, but not before its first line."""
    tool = shell('while :; do echo "$$ $0"; sleep 0.05; done')
    pids = []
    for seconds in (1.0, 1.0, 0.1, 0.1):
        monkeypatch.setattr(Pace, "scraped", lambda _, seconds=seconds: seconds)
        pid, milliseconds = tool.line().split()
        assert milliseconds == str(round(1000 * seconds))
        pids.append(pid)
    assert pids[0] == pids[1] != pids[2] == pids[3]
    assert has_ended(int(pids[0]))


@pytest.mark.usefixtures("slowly")
def test_the_last_line_is_kept(shell: Callable[..., Tool]) -> None:
    tool = shell(SPEAKS)
    pid, first = tool.line().split()
    until(lambda: int(tool.line().split()[1]) > int(first) + 2)
    assert tool.line().split()[0] == pid, "one process"


def test_it_starts_at_the_first_line(shell: Callable[..., Tool], tmp_path: Path) -> None:
    tool = shell(f"touch {tmp_path}/started; {SPEAKS}")
    tool.close()
    assert not (tmp_path / "started").exists()
    tool.line()
    assert (tmp_path / "started").exists()


@pytest.mark.usefixtures("slowly")
def test_it_outlives_the_thread_that_started_it(shell: Callable[..., Tool]) -> None:
    tool = shell(SPEAKS)
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.append(tool.line()))
    reading.start()
    reading.join()
    pid, first = lines[0].split()
    until(lambda: int(tool.line().split()[1]) > int(first) + 2)
    assert tool.line().split()[0] == pid


def test_a_silent_tool_raises(shell: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.2)
    tool = shell("sleep 60")
    with pytest.raises(TimeoutError, match=r"sh .* 0 s"):
        tool.line()


def test_a_stale_line_raises(shell: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.3)
    tool = shell("echo once; sleep 60")
    assert tool.line() == "once\n"
    with pytest.raises(TimeoutError, match=r"sh .* 0 s"):
        until(lambda: tool.line() != "once\n")


def test_an_ended_tool_is_restarted_after_a_pause(shell: Callable[..., Tool], tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tool = shell(f"echo $$ >> {starts}; exit 7", pause=0.3)
    began = time.monotonic()

    def started_thrice() -> bool:
        with pytest.raises(ChildProcessError, match="sh has ended with status 7"):
            tool.line()
        return len(starts.read_text().split()) >= 3

    until(started_thrice)
    assert time.monotonic() - began >= 0.6


def test_a_restarted_tool_prints_lines(shell: Callable[..., Tool]) -> None:
    tool = shell(SPEAKS)
    pid = int(tool.line().split()[0])
    os.kill(pid, signal.SIGKILL)
    until(lambda: has_ended(pid))

    def speaks() -> bool:
        with contextlib.suppress(ChildProcessError):
            return int(tool.line().split()[0]) != pid
        return False

    until(speaks)


def test_a_missing_tool_raises() -> None:
    tool = Tool("/no/such/tegrastats")
    with pytest.raises(
        ChildProcessError, match=r"tegrastats (has ended with status 1|cannot be started: No such file)"
    ):
        tool.line()
    tool.close()


def test_a_tool_that_closes_its_output_is_ended(shell: Callable[..., Tool], tmp_path: Path) -> None:
    tool = shell(f"echo $$ > {tmp_path}/pid; exec >&-; sleep 60", pause=60)
    with pytest.raises(ChildProcessError, match="sh has ended with status -9"):
        tool.line()
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_it_ends_with_its_child_processes(shell: Callable[..., Tool]) -> None:
    tool = shell("sleep 60 & echo $$ $!; wait")
    pids = [int(pid) for pid in tool.line().split()]
    tool.close()
    tool.close()
    until(lambda: all(has_ended(pid) for pid in pids))
    assert int(tool.line().split()[0]) not in pids, "a later call starts it again"


def test_a_waiting_caller_notices_the_end(shell: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_SECONDS", 60)
    tool = shell("sleep 60")
    failures: list[BaseException] = []

    def read() -> None:
        try:
            tool.line()
        except ChildProcessError as error:
            failures.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    until(lambda: tool._child is not None)
    tool.close()
    reading.join(HUNG_SECONDS)
    assert [str(failure) for failure in failures] == ["sh was ended"]


def test_a_close_at_any_time_leaves_no_process(shell: Callable[..., Tool], tmp_path: Path) -> None:
    tool = shell(f"echo $$ >> {tmp_path}/pids; {SPEAKS}")
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                tool.line()
            except ChildProcessError:
                time.sleep(0.001)

    reading = [threading.Thread(target=read) for _ in range(3)]
    for thread in reading:
        thread.start()
    for at in range(20):
        time.sleep(at * 0.005)  # also during the start
        tool.close()
    stop.set()
    for thread in reading:
        thread.join(HUNG_SECONDS)
    tool.close()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until(lambda: all(has_ended(pid) for pid in pids))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_it_ends_with_a_killed_exporter(tmp_path: Path) -> None:
    code = (
        "import sys; from hypergauge.exporters.serving.tool import Tool\n"
        "print(Tool('sh', '-c', 'trap \"\" PIPE; echo $$; sleep 60').line(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as exporter:
        assert exporter.stdout is not None
        pid = int(exporter.stdout.readline())
        assert not has_ended(pid)
        exporter.kill()
    until(lambda: has_ended(pid))


def test_cpu_time_of_a_program_is_kept_after_its_end(shell: Callable[..., Tool]) -> None:
    before = child.cpu_seconds()
    tool = shell("echo begins; while :; do :; done")
    assert tool.line() == "begins\n"
    until(lambda: child.cpu_seconds() > before + 0.05)
    used = child.cpu_seconds()
    tool.close()
    assert child.cpu_seconds() >= used
