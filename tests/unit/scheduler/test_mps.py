"""MPS daemons: own devices and folders, and their end by command or by force."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.pages import Page
from hypergauge.scheduler.devices.mps import PROGRAM, MpsDaemon
from tests.support.fakes import mps as fake_mps

GPUS = ["GPU-1", "GPU-2"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path, for sockets."""
    with tempfile.TemporaryDirectory(prefix="bench-mps-") as short:
        yield Path(short)


@pytest.fixture
def daemon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MpsDaemon]:
    """Return a daemon before its start, with the program on ``PATH``."""
    monkeypatch.setenv("PATH", str(fake_mps.installed_mps(folder / "bin")), prepend=":")
    made = MpsDaemon(folder / "daemon")
    yield made
    made.stop(timeout=0.1)


def control(daemon: MpsDaemon, words: str, *options: str) -> str:
    done = subprocess.run(
        [PROGRAM, *options],
        input=words.encode(),
        capture_output=True,
        env={**os.environ, **daemon.variables()},
        check=False,
    )
    return done.stdout.decode()


def test_a_daemon_is_started_for_its_devices_and_leaves_nothing(daemon: MpsDaemon) -> None:
    assert not daemon.running
    daemon.start(GPUS)
    [pid] = daemon.pids
    assert psutil.Process(pid).environ()["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    control(daemon, "start_server -uid 0")
    server = int(control(daemon, "get_server_list"))
    assert daemon.pids == {pid, server}
    daemon.stop()
    assert not daemon.running
    assert not daemon.folder.exists()
    daemon.stop()


def test_clients_know_where_it_is() -> None:
    daemon = MpsDaemon(Path("/tmp/x"))
    folders = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/x/pipe", "CUDA_MPS_LOG_DIRECTORY": "/tmp/x/log"}
    assert daemon.variables() == folders
    assert daemon.variables(40) == {**folders, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40"}


def test_a_daemon_that_hangs_is_ended_all_the_same(daemon: MpsDaemon) -> None:
    daemon.start(GPUS)
    [pid] = daemon.pids
    os.kill(pid, signal.SIGSTOP)
    daemon.stop(timeout=0.2)
    assert not daemon.running
    assert not daemon.folder.exists()


def test_what_a_killed_daemon_left_is_removed(daemon: MpsDaemon) -> None:
    daemon.start(GPUS)
    [pid] = daemon.pids
    os.kill(pid, signal.SIGKILL)
    daemon.stop()
    assert not daemon.folder.exists()


def test_the_daemon_is_no_process_of_the_run_that_it_was_started_in(
    daemon: MpsDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_RUN_ID", "0" * 32)
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
    daemon.start(GPUS)
    [pid] = daemon.pids
    assert not {"BENCH_RUN_ID", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"} & psutil.Process(pid).environ().keys()


def test_a_daemon_that_does_not_start_reports_why(daemon: MpsDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MPS_REFUSES", "Operation not permitted")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(GpuUnavailable) as caught:
        daemon.start(GPUS)
    pipes, logs = daemon.folder / "pipe", daemon.folder / "log"
    assert str(caught.value) == (
        "the MPS daemon did not start: Operation not permitted; to see whether root may: sudo env "
        f"CUDA_MPS_PIPE_DIRECTORY={pipes} CUDA_MPS_LOG_DIRECTORY={logs} CUDA_VISIBLE_DEVICES=GPU-1,GPU-2 {PROGRAM} -d"
        f" (see {Page.MPS.address})"
    )


def test_without_the_program_there_is_the_folder_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    daemon = MpsDaemon(folder / "daemon")
    daemon.start(GPUS)
    assert (daemon.folder / "pipe").is_dir()
    assert not daemon.running
    daemon.stop()
    assert not daemon.folder.exists()


def test_the_stand_in_refuses_what_nvidias_program_does(daemon: MpsDaemon) -> None:
    assert "Cannot find MPS control daemon process" in control(daemon, "quit")
    assert "invalid option -- 'x'" in control(daemon, "", "-x")
    daemon.start(GPUS)
    assert "already running" in control(daemon, "", "-d")
    assert control(daemon, "get_default_active_thread_percentage") == "100.0\n"
    assert "not recognized" in control(daemon, "stop")
