"""MLflow's server of the local stack: a port that links to it can rely on."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import Stack
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.tracking_server import start_tracking


# The local stack's services are meant to outlive whoever starts them.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_its_port_is_the_same_after_the_stack_was_stopped(tmp_path: Path) -> None:
    """The port is chosen before the server answers, so the test waits for no answer."""
    settings = Settings(home=tmp_path / "home", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    messages: list[str] = []
    found: list[tuple[str, str]] = []
    for _ in range(2):
        stack = Stack(settings)
        service = start_tracking(stack, settings, Database(settings), dict(os.environ), messages.append)
        try:
            command = psutil.Process(service.pid).cmdline()
            found.append((service.url, command[command.index("--port") + 1]))
        finally:
            assert stack.stop_all() == ["mlflow"]
    assert found[0] == found[1]
    assert found[0][0].endswith(f":{found[0][1]}")
    assert messages == []
