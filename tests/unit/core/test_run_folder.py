"""Atomic writes, and file descriptors above 1023."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hypergauge.core.config.rule_settings import Action
from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState, appearing, write_atomically
from hypergauge.core.system.processes import identity
from hypergauge.scheduler.active import ActiveRun
from hypergauge.scheduler.reactions.notifications import send
from hypergauge.scheduler.supervision import ask_to_stop
from tests.support.disks import fill, small_disk
from tests.support.waiting import HUNG_SECONDS

Write = Callable[[Path, bytes], None]


def write_appearing(path: Path, content: bytes) -> None:
    with appearing(path) as temporary:
        temporary.write_bytes(content)


@pytest.fixture(params=[write_atomically, write_appearing])
def write(request: pytest.FixtureRequest) -> Write:
    """Yield each function that writes a file."""
    way: Write = request.param
    return way


GOOD_END = RunEnd("finished", 1.0, 2.0, 0, "a reason", 1.5, 1, 2, 3)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b'{"status": "finished"}', b"[" * 100_000,
        *(json.dumps({**asdict(GOOD_END), **damage}).encode() for damage in (
            {"status": "odd"}, {"status": None}, {"ended_at": "x"}, {"ended_at": 1e300}, {"started_at": float("nan")},
            {"exit_code": 0.5}, {"exit_code": 10**40}, {"reason": 5}, {"other": 1},
        )),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_run_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    folder = RunFolder(tmp_path)
    folder.write_end(GOOD_END)
    assert folder.end() == GOOD_END
    for name in ("end.json", "supervisor.json", "spec.json", "stop.json"):
        (tmp_path / name).write_bytes(content)
    assert folder.end() is None
    assert folder.state() is None
    assert isinstance(folder.spec(), dict)
    assert folder.stop_reason() in (None, "", "a reason", "5")


def test_a_reason_is_text_for_the_database(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_end(replace(GOOD_END, reason="cannot start a\0b\udce9"))
    end = folder.end()
    assert end is not None
    assert end.reason == "cannot start a?b?"
    folder.ask_to_stop("\udce9")
    assert folder.stop_reason() == "?"


def test_concurrent_writes_leave_one_of_the_contents(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + number]) * 100_000 for number in range(4)]
    failed: list[OSError] = []

    def write_often(content: bytes) -> None:
        try:
            for _ in range(30):
                write(path, content)
                assert path.read_bytes() in contents
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=write_often, args=[content]) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_and_its_folder_are_synced(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is synced first, then the folder; a test cannot cut the power in between."""
    synced: list[tuple[bool, bool]] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        sync(descriptor)
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", noting)
    write(tmp_path / "file", b"content")
    assert synced == [(False, False), (True, True)]


def test_a_failed_write_leaves_nothing(tmp_path: Path, write: Write) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Open so many files that the next descriptor exceeds 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] <= 1023:
        opened.append(os.dup(opened[0]))
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_a_supervisors_descriptor_may_exceed_1023(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('ready', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.fileno() > 1023
        ActiveRun(None, RunFolder(tmp_path), None, process).await_ready("20/1/1", HUNG_SECONDS)  # type: ignore[arg-type]
        process.kill()


@pytest.mark.usefixtures("many_descriptors")
def test_a_commands_descriptor_may_exceed_1023(tmp_path: Path) -> None:
    action = Action("notify", command=(sys.executable, "-c", "print('sent')"), folder=tmp_path)
    assert send(action, {"id": "1", "rule": "idle"}) == "exit status 0: sent"


def test_a_run_is_stopped_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        folder = RunFolder(disk / ("0" * 32))
        folder.create({})
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as supervisor:
            folder.write_state(SupervisorState(supervisor.pid, identity(supervisor.pid) or 0.0))
            fill(disk, leave=0)
            try:
                assert ask_to_stop(folder, "stopped by me")
                assert supervisor.wait(HUNG_SECONDS) == -signal.SIGTERM
            finally:
                supervisor.kill()
        assert folder.stop_reason() is None
