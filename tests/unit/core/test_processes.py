"""Processes of a run, with real ones: cleared environments, own sessions, orphans, zombies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from hypergauge.core.system.processes import RunProcesses, RunTree, end_run, identity, is_alive, read_stat
from tests.support.waiting import HUNG_SECONDS

# Like a supervisor, it adopts the run's orphans, waits for them, and ends with its input.
SUPERVISOR = """
import ctypes, os, signal, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
environment = {**os.environ, "BENCH_RUN_ID": os.environ["BENCH_SUPERVISOR"]}
del environment["BENCH_SUPERVISOR"]
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
root = subprocess.Popen(sys.argv[1:], env=environment, stdin=subprocess.DEVNULL)
helper = subprocess.Popen(["sleep", "60"])
sys.stdin.read()
helper.kill()
"""


@pytest.fixture
def run_id() -> Iterator[str]:
    run_id = uuid.uuid4().hex
    yield run_id
    end_run(run_id, grace=0)


def start(*command: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, **variables}, stdin=subprocess.PIPE)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def until(condition: Callable[[], bool], seconds: float = HUNG_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.02)


def shell(script: str, **variables: str) -> subprocess.Popen[bytes]:
    return start("sh", "-c", script, **variables)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"


def tree_of(processes: RunProcesses, run_id: str, *expected: str) -> RunTree:
    """Scan until the run's processes are the expected ones, in this order."""
    tree = RunTree()

    def found() -> bool:
        nonlocal tree
        tree = processes.scan().get(run_id, RunTree())
        return [command(member.pid) for member in tree.members] == list(expected)

    until(found)
    return tree


def test_a_process_is_alive_while_pid_and_start_agree() -> None:
    process = start("sleep", "60")
    created = identity(process.pid)
    assert created is not None
    assert is_alive(process.pid, created)
    assert not is_alive(process.pid, created + 0.01)
    process.kill()
    until(lambda: (stat := read_stat(process.pid)) is not None and stat.zombie)
    assert not is_alive(process.pid, created), "a zombie is not alive"
    process.communicate()
    assert identity(process.pid) is None
    assert not is_alive(process.pid, created)


def test_a_name_with_parentheses_and_spaces_is_skipped(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    process = start(str(program), "60")
    try:
        until(lambda: command(process.pid) == "a) S 1 (b")
        stat = read_stat(process.pid)
        assert stat is not None
        assert stat.parent == os.getpid()
        assert stat.threads == 1
    finally:
        stop(process)


def test_children_inherit_the_run_and_come_after_their_parents(run_id: str) -> None:
    process = shell("sh -c 'sleep 60; :'; :", BENCH_RUN_ID=run_id)
    tree = tree_of(RunProcesses(), run_id, "sh", "sh", "sleep")
    assert tree.members[0].pid == process.pid
    assert [member.parent for member in tree.members[1:]] == [member.pid for member in tree.members[:-1]]
    assert tree.by_tree == 0
    assert tree.supervisor is None
    stop(process)


@pytest.mark.parametrize("variables", [{}, {"BENCH_RUN_ID": ""}, {"BENCH_RUN_ID": "no run's id"}])
def test_other_processes_belong_to_no_run(variables: Mapping[str, str]) -> None:
    process = start("sleep", "60", **variables)
    until(lambda: command(process.pid) == "sleep")
    trees = RunProcesses().scan()
    assert process.pid not in {member.pid for tree in trees.values() for member in tree.members}
    stop(process)


@pytest.mark.parametrize("age", [0.0, 1.2])
def test_a_cleared_environment_is_attributed_by_tree(run_id: str, age: float) -> None:
    process = shell("env -i sleep 60; :", BENCH_RUN_ID=run_id)
    time.sleep(age)
    tree_of(RunProcesses(), run_id, "sh", "sleep")
    assert RunProcesses().scan()[run_id].by_tree == 1
    stop(process)


def test_an_orphan_stays_with_its_run(run_id: str) -> None:
    process = shell("env -i setsid sleep 60; :", BENCH_RUN_ID=run_id)
    processes = RunProcesses()
    tree_of(processes, run_id, "sh", "sleep")
    stop(process)
    tree = tree_of(processes, run_id, "sleep")
    assert run_id not in RunProcesses().scan(), "a later observer cannot know"
    os.kill(tree.members[0].pid, signal.SIGKILL)
    tree_of(processes, run_id)


def test_a_late_environment_is_noticed(run_id: str) -> None:
    process = shell(f"sleep 1.3; exec env BENCH_RUN_ID={run_id} sleep 60")
    processes = RunProcesses()
    time.sleep(1.1)
    processes.scan()
    tree_of(processes, run_id, "sleep")
    stop(process)


def test_orphans_of_a_supervisor_belong_to_the_run_and_it_does_not(run_id: str) -> None:
    script = "(env -i setsid sleep 60 &) ; exec sleep 61"
    process = start(sys.executable, "-c", SUPERVISOR, "sh", "-c", script, BENCH_SUPERVISOR=run_id)
    processes = RunProcesses()
    until(lambda: len(processes.scan().get(run_id, RunTree()).members) == 2)
    time.sleep(1.1)  # every environment is settled by then
    tree = tree_of(processes, run_id, "sleep", "sleep")
    assert tree.supervisor is not None
    assert tree.supervisor.pid == process.pid
    assert {member.parent for member in tree.members} == {process.pid}
    assert RunProcesses().scan()[run_id].by_tree == 1, "the orphan is found below the supervisor at the first scan too"
    assert end_run(run_id) == 2
    assert process.poll() is None, "the supervisor continues"
    process.communicate()


def test_end_run_reaches_a_grandchild_in_a_session_of_its_own(run_id: str) -> None:
    process = shell("(setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &); :", BENCH_RUN_ID=run_id)
    process.communicate()
    tree_of(RunProcesses(), run_id, "sh", "sleep")  # its trap is set by then
    started = time.monotonic()
    assert end_run(run_id, grace=0.5) >= 1
    assert time.monotonic() - started > 0.4
    assert run_id not in RunProcesses().scan()


def test_end_run_catches_forks_during_the_killing(run_id: str) -> None:
    forks = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for fork in range(500):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        time.sleep(600)\n"
        "    if fork == 0:\n"
        "        print('ready', flush=True)\n"
        "    time.sleep(0.02)\n"
    )
    environment = {**os.environ, "BENCH_RUN_ID": run_id}
    with subprocess.Popen([sys.executable, "-c", forks], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert end_run(run_id, grace=0.3) >= 2
    assert process.returncode == -signal.SIGKILL
    assert run_id not in RunProcesses().scan()


def test_end_run_without_processes() -> None:
    started = time.process_time()
    assert end_run(uuid.uuid4().hex) == 0
    assert time.process_time() - started < 1


def test_a_service_that_a_run_starts_belongs_to_no_run(run_id: str, tmp_path: Path) -> None:
    """Also its descendants without an environment, and as an orphan that the supervisor adopts."""
    told = tmp_path / "pids"
    service = f"(env BENCH_SERVICE=1 sh -c 'env -i sleep 97 & echo $! $$ >{told}; wait') &"
    supervisor = start(
        sys.executable, "-c", SUPERVISOR, "sh", "-c", f"{service} exec sleep 98", BENCH_SUPERVISOR=run_id
    )
    until(lambda: told.exists() and told.read_text().endswith("\n"))
    started = [int(pid) for pid in told.read_text().split()]
    identities = {pid: identity(pid) for pid in started}
    processes = RunProcesses(services=True)
    try:
        tree_of(processes, run_id, "sleep")
        assert {member.pid for member in processes.services.members} >= set(started)
        assert end_run(run_id, grace=0) == 1
        assert {pid: identity(pid) for pid in started} == identities
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        stop(supervisor)
