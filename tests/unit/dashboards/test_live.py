"""Live view of runs on screens of several sizes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console, RenderableType

from hypergauge.dashboards.terminal.live import changes, curve, live_table, summary
from hypergauge.insight.watch import Level, Watched, WatchedRun
from hypergauge.sql.queries.live import Position
from hypergauge.sql.runs.selection import RunInfo


def run(position: int = 1, status: str = "running", **others: Any) -> RunInfo:
    known: dict[str, Any] = {
        "run_id": f"{position:032x}", "mlflow_run_id": None, "experiment_id": 20, "workload": 1, "position": position,
        "attempt": 1, "name": "wide [b]net[/]", "owner": "", "status": status, "started_at": datetime.now(UTC),
        "ended_at": None, "duration": 75.0, "exit_code": None, "reason": None, "command": "", "environment": "-",
        "collocation": "-", "devices": "", "params": {}, "host": "n1", "keep": False, "simulated": False,
        "full_label": f"20/1/{position}",
    }  # fmt: skip
    return RunInfo(**{**known, **others})


def busy(position: int = 1, scope: str = "device", **others: Any) -> WatchedRun:
    history = tuple(range(60))
    levels = {
        "cpu_usage": Level(3.25, "process", history),
        "memory_used": Level(2**30, "process", history),
        "gpu_utilization": Level(0.5, scope, (0.5,) * 60),
        "gpu_power": Level(250.0, scope, history),
    }
    info = run(position, **others)
    return WatchedRun(info, Position(info.run_id, "train", 3, 1200), levels)


def drawn(what: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, emoji=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("values", "cells", "top", "text"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, None, "▁▂▃▄▅▆▇█"),
        ([0, 2, 4, 6], 2, 8.0, "▂▆"),
        ([None, None, 1, None], 4, 1.0, "  █ "),
        ([0.5, 0.5], 4, 1.0, " ▅ ▅"),  # more cells than values
        ([0, 0], 2, None, "▁▁"),
        ([2.0], 1, 1.0, "█"),  # above the maximum
        ([], 3, None, "   "),
    ],
)
def test_a_curve(values: Sequence[float | None], cells: int, top: float | None, text: str) -> None:
    assert curve(values, cells, top) == text


def test_values_stand_above_their_curves() -> None:
    lines = drawn(live_table(Watched((busy(), busy(2, "instance")), over=False), 120, 30), 120)
    assert lines[1].split() == ["run", "status", "CPU", "memory", "GPU", "power"]
    assert lines[3].split() == ["20/1/1", "running", "1:15", "3.25", "cores", "1.0", "GiB", "50%†", "250", "W†"]
    assert lines[4].startswith(" wide [b]net[/]   train · epoch 3 · step 1200 ")
    assert [len(cell) for cell in lines[4].split()[-4:]] == [15, 15, 15, 15]
    assert lines[4].split()[-2] == "▅" * 15
    assert lines[5].split()[-3:] == ["50%", "250", "W"]
    assert lines[8:] == ["† of the whole GPU, shared with other runs", "Ctrl-C leaves; the runs continue."]


@pytest.mark.parametrize("width", [64, 80, 100, 200])
def test_on_a_narrow_screen_words_give_way(width: int) -> None:
    lines = drawn(live_table(Watched((busy(simulated=True),), over=False), width, 30), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(value in text for value in ("20/1/1 *", "3.25 cores", "1.0 GiB", "50%†", "250 W†"))


def test_on_a_low_screen_running_ones_stay() -> None:
    runs = [busy(number, status="finished" if number < 9 else "running") for number in range(1, 12)]
    lines = drawn(live_table(Watched((*runs, WatchedRun(run(12, "pending"))), over=False), 100, 18), 100)
    labels = [line.split()[0] for line in lines if line.startswith(" 20/")]
    assert labels == ["20/1/9", "20/1/10", "20/1/11", "20/1/12"]
    assert "… and 8 runs: 8 finished" in lines


def test_errors_and_ends_are_reported() -> None:
    waiting = drawn(live_table(Watched((), over=False), 80, 24), 80)
    assert waiting == ["Waiting for the first run.", "Ctrl-C leaves; the runs continue."]
    awaited = Watched((), over=False, awaited=("21 names no run [yet]",))
    assert drawn(live_table(awaited, 80, 24), 80)[0] == "Waiting for the first run: 21 names no run [yet]."
    away = drawn(live_table(Watched((busy(),), over=False, problem="it is [away]"), 80, 24), 80)
    assert "! it is [away]; retrying; the values are the last known ones" in away
    ended = Watched(
        (WatchedRun(run(status="failed", reason="exit status 3")), WatchedRun(run(2, "finished"))), over=True
    )
    lines = drawn(live_table(ended, 80, 24), 80)
    assert lines[3:5] == [" 20/1/1           failed 1:15", " wide [b]net[/]   exit status 3"]
    assert not any("Ctrl-C" in line for line in lines)
    assert summary(ended) == "2 runs: 1 failed, 1 finished."


def test_a_line_is_written_for_each_change() -> None:
    def lines(before: Watched | None, seen: Watched) -> list[str]:
        return [line for text in changes(before, seen) for line in drawn(text, 200)]

    awaited = Watched((), over=False, awaited=("21 names no run [yet]",))
    assert lines(None, awaited) == ["waiting for the first run: 21 names no run [yet]"]
    assert lines(awaited, awaited) == []
    first = Watched((busy(), WatchedRun(run(2, "pending"))), over=False)
    assert lines(None, first) == [
        "20/1/1 wide [b]net[/] running: train · epoch 3 · step 1200",
        "20/1/2 wide [b]net[/] pending",
    ]
    assert lines(first, first) == []
    away = Watched(first.runs, over=False, problem="it is away")
    assert lines(first, away) == ["! it is away; retrying"]
    slow = Watched((replace(busy(), rules=("CpuSaturated", "StepOutlier")), first.runs[1]), over=False)
    expected = "20/1/1 wide [b]net[/] running: train · epoch 3 · step 1200 · ! CpuSaturated · ! StepOutlier"
    assert lines(first, slow) == [expected]
    ended = run(status="failed", reason="exit status 3", ended_at=datetime.now(UTC))
    assert lines(away, Watched((WatchedRun(ended), first.runs[1]), over=False)) == [
        "20/1/1 wide [b]net[/] failed after 1:15: exit status 3",
        "the database answers again",
    ]
