"""Services of a home: the same port each time, and no confusion with other processes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Service, Stack
from hypergauge.core.system.processes import identity, read_stat
from tests.support.waiting import wait_for


def test_a_port_is_the_same_at_each_start(tmp_path: Path) -> None:
    messages: list[str] = []
    port = Stack(Settings(home=tmp_path)).lasting_port("mlflow", messages.append)
    assert [Stack(Settings(home=tmp_path)).lasting_port("mlflow", messages.append) for _ in range(3)] == [port] * 3
    assert messages == []


def test_a_port_that_is_taken_is_left_for_another_which_is_said_once(tmp_path: Path) -> None:
    messages: list[str] = []
    stack = Stack(Settings(home=tmp_path))
    port = stack.lasting_port("mlflow", messages.append)
    with socket.create_server(("127.0.0.1", port)):
        other = stack.lasting_port("mlflow", messages.append)
        assert stack.lasting_port("mlflow", messages.append) == other
    assert stack.lasting_port("mlflow", messages.append) == other != port
    assert messages == [
        f"port {port} of mlflow is taken by another program: it has {other} from now on, and links change"
    ]


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a foreign process with a session of its own."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(Settings(home=tmp_path))
    (tmp_path / "stack").mkdir()
    yield stack
    stack.stop_all()


START = """
import pathlib, sys
from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Stack
stack = Stack(Settings(home=pathlib.Path(sys.argv[1])))
stack.start("listener", sys.argv[2:], url="http://127.0.0.1:1", health="", environment={})
"""


def started(home: Path, *words: str) -> Service:
    """Start a service that outlives its starting command."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", START, str(home), *words], check=True)
    return Stack(Settings(home=home)).recorded()["listener"]


def record(tmp_path: Path, service: Service, **more: object) -> None:
    (tmp_path / "stack" / "listener.service").write_text(json.dumps(asdict(service) | more))


@pytest.mark.parametrize("why", ["held", "kept", None])
def test_what_a_killed_command_has_left_is_stopped(tmp_path: Path, stack: Stack, why: str | None) -> None:
    service = started(tmp_path, "sleep", "600")
    other = Stack(Settings(home=tmp_path))
    if why == "held":
        other.hold(lambda: None)
    stack.keep(why == "kept")
    stack.stop_unheld()
    assert service.alive == (why is not None)
    other.release()


@pytest.mark.parametrize("change", [{"created": -1.0}, {"world": "before the host was restarted"}])
def test_a_process_that_has_its_pid_now_is_left_alone(
    tmp_path: Path, stack: Stack, innocent: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    service = Service("listener", innocent.pid, identity(innocent.pid) or 0.0, "http://127.0.0.1:1", "", None, None)
    record(tmp_path, service, **change)
    assert stack.services() == {}
    stack.port("listener")
    assert stack.stop_all() == ["listener"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        innocent.wait(0.2)
    assert innocent.poll() is None


def test_what_a_service_has_left_is_ended(tmp_path: Path, stack: Stack) -> None:
    service = started(tmp_path, "sh", "-c", "sleep 60 & echo $!; exec sleep 60")
    log = tmp_path / "log" / "listener.log"
    left = int(wait_for(lambda: log.read_text().removesuffix("\n"), "the pid of its child"))
    assert identity(left) is not None
    assert stack.stop_all() == ["listener"]
    assert not service.alive
    wait_for(lambda: (stat := read_stat(left)) is None or stat.zombie, "the end of its child")


def test_what_another_release_has_written_is_read_as_far_as_it_is_known(tmp_path: Path, stack: Stack) -> None:
    service = started(tmp_path, "sleep", "60")
    record(tmp_path, service, added="later")
    assert stack.services() == {"listener": service}
    record(tmp_path, replace(service, world=None))
    assert stack.services()["listener"].alive
    (tmp_path / "stack" / "broken.service").write_text("{")
    (tmp_path / "stack" / "other.service").write_text('{"name": "other"}')
    assert list(stack.services()) == ["listener"]
