"""`bench logs` of runs whose output is not here."""

from __future__ import annotations

import platform
import time

import pytest

from tests.conftest import Command
from tests.support.world import HOST, World


def test_it_says_where_the_output_may_be(world: World, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    world.run(time.time() - 60, time.time() - 30)

    def said() -> str:
        status, _, output = command("logs", "20/1/1")
        assert status == 1
        return output

    assert f"the output of 20/1/1 is not on this host; it ran on {HOST}" in said()
    world.connection.execute("update runs set host = %s", (platform.node(),))
    expected = f"is not in {world.database.settings.home}; it was imported, or ran with another BENCH_HOME"
    assert expected in said()
