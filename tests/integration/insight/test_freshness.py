"""Waits for the last samples of a run that has just ended, and for no other run's."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.core.system.processes import identity
from hypergauge.insight import freshness
from hypergauge.insight.freshness import await_values
from tests.support.world import World


@pytest.fixture
def here(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, home=tmp_path / "home")


def run_of(here: Settings, world: World, ended_at: float, position: int = 1) -> RunFolder:
    """Make a run of this home whose supervisor, this process, has something to deliver."""
    run_id = world.run(ended_at - 10, ended_at, position=position)
    folder = RunFolder(here.runs_dir / run_id)
    folder.create({})
    folder.write_state(SupervisorState(os.getpid(), identity(os.getpid()) or 0.0))
    return folder


def test_a_run_that_has_just_ended_is_waited_for(here: Settings, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "_SETTLE_SECONDS", 60.0)
    monkeypatch.setattr(freshness, "_QUIET_SECONDS", 0.0)
    folder = run_of(here, world, time.time() - 1)
    order: list[str] = []

    def arrive() -> None:
        order.append("delivered")
        folder.mark_delivered()
        with world.database.session() as connection:
            order.append("summarised")
            connection.execute("update runs set summarised = true")

    def report(words: str) -> None:
        assert words == "waiting for the last metrics of 20/1/1"
        threading.Thread(target=arrive).start()

    assert await_values(world.connection, here, ["20"], report)
    assert order == ["delivered", "summarised"]


def test_one_that_does_not_settle_is_given_up(here: Settings, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "_SETTLE_SECONDS", 60.0)
    monkeypatch.setattr(freshness, "_QUIET_SECONDS", 0.0)
    run_of(here, world, time.time() - 1)
    messages: list[str] = []

    def report(words: str) -> None:
        messages.append(words)
        monkeypatch.setattr(freshness, "_SETTLE_SECONDS", 0.0)  # the wait is over

    assert not await_values(world.connection, here, ["20"], report)
    assert messages == [
        "waiting for the last metrics of 20/1/1", "the last metrics of 20/1/1 have not arrived yet",
    ]  # fmt: skip


def test_no_run_waits_for_others(here: Settings, world: World) -> None:
    now = time.time()
    run_of(here, world, now - 1)
    world.run(now - 10, now - 1, position=2)  # another home's
    run_of(here, world, now - 3600, position=3)
    messages: list[str] = []
    assert await_values(world.connection, here, ["20/1/2", "20/1/3"], messages.append)
    assert messages == []
