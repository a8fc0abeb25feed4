"""MLflow's server of the local stack: its port, its process, and the store that it waits for."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.services import Stack
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.tracking_server import starting_tracking
from tests.support.home import Home
from tests.support.waiting import wait_for

# The local stack's services are meant to outlive whoever starts them.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def port_argument(pid: int) -> str:
    command: list[str] = []

    def visible() -> bool:
        """Return whether the arguments are there, a moment after the program has replaced the process that started it."""
        command[:] = psutil.Process(pid).cmdline()
        return "--port" in command

    wait_for(visible)
    return command[command.index("--port") + 1]


def test_its_port_is_the_same_after_the_stack_was_stopped(tmp_path: Path) -> None:
    """The port is chosen before the server answers, so the test waits for no answer."""
    settings = Settings(home=tmp_path / "home", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    messages: list[str] = []
    found: list[tuple[str, str]] = []
    for _ in range(2):
        stack = Stack(settings)
        with starting_tracking(stack, settings, Database(settings), dict(os.environ), messages.append) as service:
            found.append((service.url, port_argument(service.pid)))
        assert stack.stop_all() == ["mlflow"]
    assert found[0] == found[1]
    assert found[0][0].endswith(f":{found[0][1]}")
    assert messages == []


def test_one_process_serves_a_store_that_was_ready_later(tmp_path: Path) -> None:
    store = tmp_path / "later" / "mlflow.db"
    settings = Settings(home=tmp_path / "home", tracking_uri=f"sqlite:///{store}")
    stack = Stack(settings)
    try:
        with starting_tracking(stack, settings, Database(settings), dict(os.environ), print) as service:
            store.parent.mkdir()
        stack.await_answer(service, 240)
        assert store.exists()
        assert psutil.Process(service.pid).children() == []
    finally:
        stack.stop_all()


def test_without_a_store_nothing_is_served(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    stack = Stack(settings)
    with pytest.raises(InterruptedError), starting_tracking(stack, settings, Database(settings), {}, print) as service:
        raise InterruptedError
    with pytest.raises(ServiceFailed, match="ended before its database was ready"):
        stack.await_answer(service, 240)
    assert stack.stop_all() == ["mlflow"]


def test_a_login_without_the_right_to_create_the_store_is_referred_to_the_setting(dsn: str, tmp_path: Path) -> None:
    Database(Settings(home=tmp_path, dsn=dsn)).open().close()
    writer = conninfo.make_conninfo(dsn, options="-crole=bench_writer")
    home = Home(tmp_path / "home", tmp_path, {"BENCH_DSN": writer})
    assert "MLFLOW_TRACKING_URI" in home.bench("up", status=2)
    assert Stack(Settings(home=home.path, dsn=writer)).recorded() == {}
