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


def test_a_taken_port_is_replaced_with_one_message(tmp_path: Path) -> None:
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
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield another process, in its own session."""
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
stack.start("exporter", sys.argv[2:], url="http://127.0.0.1:1", health="", environment={})
"""


def started(home: Path, *words: str) -> Service:
    """Start a service that outlives its starting command."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", START, str(home), *words], check=True)
    return Stack(Settings(home=home)).recorded()["exporter"]


def record(tmp_path: Path, service: Service, **more: object) -> None:
    (tmp_path / "stack" / "exporter.service").write_text(json.dumps(asdict(service) | more))


@pytest.mark.parametrize("why", ["held", "kept", None])
def test_services_of_a_killed_command_are_stopped(tmp_path: Path, stack: Stack, why: str | None) -> None:
    service = started(tmp_path, "sleep", "600")
    other = Stack(Settings(home=tmp_path))
    if why == "held":
        other.hold(lambda: None)
    stack.keep(why == "kept")
    stack.stop_unheld()
    assert service.alive == (why is not None)
    other.release()


@pytest.mark.parametrize("change", [{"created": -1.0}, {"world": "before the host was restarted"}])
def test_another_process_with_its_pid_is_not_ended(
    tmp_path: Path, stack: Stack, other_process: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    service = Service(
        "exporter", other_process.pid, identity(other_process.pid) or 0.0, "http://127.0.0.1:1", "", None, None
    )
    record(tmp_path, service, **change)
    assert stack.services() == {}
    stack.port("exporter")
    assert stack.stop_all() == ["exporter"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        other_process.wait(0.2)
    assert other_process.poll() is None


def test_remaining_processes_of_a_service_are_ended(tmp_path: Path, stack: Stack) -> None:
    service = started(tmp_path, "sh", "-c", "sleep 60 & echo $!; exec sleep 60")
    log = tmp_path / "log" / "exporter.log"
    left = int(wait_for(lambda: log.read_text().removesuffix("\n"), "the pid of its child"))
    assert identity(left) is not None
    assert stack.stop_all() == ["exporter"]
    assert not service.alive
    wait_for(lambda: (stat := read_stat(left)) is None or stat.zombie, "the end of its child")


def test_files_of_other_releases_are_read(tmp_path: Path, stack: Stack) -> None:
    service = started(tmp_path, "sleep", "60")
    record(tmp_path, service, added="later")
    assert stack.services() == {"exporter": service}
    record(tmp_path, replace(service, world=None))
    assert stack.services()["exporter"].alive
    (tmp_path / "stack" / "broken.service").write_text("{")
    (tmp_path / "stack" / "other.service").write_text('{"name": "other"}')
    assert list(stack.services()) == ["exporter"]
