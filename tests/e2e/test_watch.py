"""`bench watch` on real runs: at a terminal, in a pipe, and for programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.home import COMMAND, SCRIPTS, Home, Started, open_gate
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for


def at_step(home: Home, name: str, gate: Path) -> tuple[Started, str]:
    """Start a run that waits behind its step, and return it with its id."""
    command = home.start("run", "--name", name, "--", sys.executable, SCRIPTS / "phases.py", gate)
    query = "select run_id from runs where name = %s and status = 'running'"
    [run] = wait_for(lambda: home.query(query, name), f"the run {name}")
    return command, run["run_id"]


def test_a_run_is_watched_at_a_terminal_to_its_end(home: Home) -> None:
    gate = home.folder / "gate-watched"
    command, run_id = at_step(home, "watched", gate)
    terminal = Terminal([*COMMAND, "watch", run_id], home.environment, home.folder)
    # The client's reports arrive during the run, and so do its metrics with curves of them.
    pattern = r"train · epoch 3 · step 7"
    wait_for(lambda: re.search(pattern, terminal.screen), pattern)
    pattern = r"running [\d.:]+ s +[\d.]+ cores +[\d.]+ MiB"
    wait_for(lambda: re.search(pattern, terminal.screen), pattern)
    wait_for(lambda: re.search("[▁▂▃▄▅▆▇█]{2,}", terminal.screen), "a curve")
    assert "Ctrl-C leaves; the runs continue." in terminal.screen
    open_gate(gate, 3)
    command.wait(3)
    last = terminal.wait(1)
    assert re.search(r"failed [\d.:]+", last)
    assert "exit status 3" in last
    assert "1 run: 1 failed." in last
    assert "Ctrl-C" not in last


def test_ctrl_c_leaves_and_stops_nothing(home: Home) -> None:
    gate = home.folder / "gate-left"
    command, run_id = at_step(home, "left", gate)
    terminal = Terminal([*COMMAND, "watch", run_id], home.environment, home.folder, columns=60)
    wait_for(lambda: "left" in terminal.text, "the run")
    terminal.press("\x03")
    assert "Traceback" not in terminal.wait(130)
    assert home.query("select status from runs where run_id = %s", run_id) == [{"status": "running"}]
    gate.touch()
    command.wait()


def test_an_experiment_that_has_not_begun_is_waited_for_until_ctrl_c(home: Home) -> None:
    terminal = Terminal([*COMMAND, "watch", "78"], home.environment, home.folder)
    wait_for(lambda: "78 names no run" in terminal.screen, "that it waits")
    terminal.press("\x03")
    assert "Traceback" not in terminal.wait(130)


def test_without_a_terminal_each_change_is_a_line(home: Home) -> None:
    gate = home.folder / "gate-lines"
    command, run_id = at_step(home, "lines", gate)
    watching = home.start("watch", run_id)
    wait_for(lambda: "epoch 3" in watching.output.read_text(), "the epoch")
    gate.touch()
    command.wait()
    lines = [line.split(" ", 2) for line in watching.wait().splitlines()]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", time) for time, *_ in lines)
    assert {label for _, label, _ in lines} == {home.json("list", run_id)[0]["run"]}
    printed = [text for *_, text in lines]
    assert printed[0].startswith("lines running")
    assert any(text.startswith("lines running: train · epoch 3") for text in printed)
    assert re.fullmatch(r"lines finished after [\d.]+ s", printed[-1])


def test_watch_waits_for_the_start(home: Home) -> None:
    gates = [home.folder / f"gate-{number}" for number in (1, 2)]
    rows = [f"77,{number},waited{number},{SCRIPTS / 'gate.py'},{gate}" for number, gate in enumerate(gates, 1)]
    sheet = home.sheet("waited", "Experiment,Workload,Name,File,Params", rows)
    command = home.start("schedule", sheet.path)
    home.running(77)
    with subprocess.Popen(
        [*COMMAND, "watch", "77", "--json"], env=home.environment, cwd=home.folder, stdout=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        assert [run["status"] for run in json.loads(watching.stdout.readline())["runs"]] == ["running"]
        gates[0].touch()
        looks = []
        for line in watching.stdout:
            looks.append(json.loads(line))
            if [run["status"] for run in looks[-1]["runs"]] == ["finished", "running"]:
                gates[1].touch()
    command.wait()
    assert watching.returncode == 0
    assert [look["over"] for look in looks] == [False] * (len(looks) - 1) + [True]
    assert {(run["run"], run["name"], run["status"]) for run in looks[-1]["runs"]} == {
        ("77/1/1", "waited1", "finished"),
        ("77/2/1", "waited2", "finished"),
    }
    assert "names no run" in home.bench("watch", "77/9", status=2)
