"""A service of a home has the same port each time that it is started."""

from __future__ import annotations

import socket
from pathlib import Path

from bench.config import Settings
from bench.services import Stack


def test_a_port_is_the_same_at_each_start(tmp_path: Path) -> None:
    said: list[str] = []
    port = Stack(Settings(home=tmp_path)).lasting_port("mlflow", said.append)
    assert [Stack(Settings(home=tmp_path)).lasting_port("mlflow", said.append) for _ in range(3)] == [port] * 3
    assert said == []


def test_a_port_that_is_taken_is_left_for_another_which_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    stack = Stack(Settings(home=tmp_path))
    port = stack.lasting_port("mlflow", said.append)
    with socket.create_server(("127.0.0.1", port)):
        other = stack.lasting_port("mlflow", said.append)
        assert stack.lasting_port("mlflow", said.append) == other
    assert stack.lasting_port("mlflow", said.append) == other != port
    assert said == [f"port {port} of mlflow is taken by another program: it has {other} from now on, and links change"]
