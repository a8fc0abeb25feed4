"""Texts of users at the terminal: no name, reason or label acts as a control sequence."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hypergauge.core.terminal import Terminal
from hypergauge.dashboards.terminal.progress import Progress
from tests.conftest import Command
from tests.support.world import World

# A title of the window, a color, the clipboard, a screen that is cleared; one in C1; a line that overwrites itself, and text that
# is read backwards.
HOSTILE = "\x1b]0;owned\x07\x1b[31m\x1b]52;c;cm0gLXJm\x1b\\\x1b[2J\x9b31m\r\x08\x7f\u202egnp\u2066"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Complaints about the files, in the files' own words.
REFUSED = ["collector check targets.yml", "schedule other.csv"]
COMMANDS = [
    ["list"],
    ["list", "20"],
    ["list", "20/1"],
    ["compare", "20"],
    ["compare", "20", "--by", "workload"],
    ["metrics", "20"],
    ["highlights", "20/1/1"],
    ["interference", "20"],
    ["watch", "20"],
    ["note", "20/1/1"],
    ["keep", "20/1/2"],
    ["rm", "20/1/1", "--dry-run", "--others"],
    ["rules", "replay", "20"],
    ["export", "20", "-o", "a.capsule"],
    ["import", "a.capsule", "--into", "21"],
    ["db", "status"],
    ["schedule", "--dry-run", "hostile.csv"],
    *(words.split() for words in REFUSED),
]


@pytest.fixture
def hostile(world: World) -> World:
    """Runs whose every text holds control sequences of terminals."""
    start = time.time() // 600 * 600 - 3600
    ids = [
        world.run(start + 10 * at, start + 300, position=at + 1, gpu=f"GPU-{at}", name=f"run {HOSTILE}")
        for at in range(2)
    ]
    times = [start + at for at in range(300)]
    world.write(
        world.gauge("node_load1", times, [2.0] * 300),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [2.0] * 300, {"UUID": "GPU-0"}),
    )
    world.connection.execute("update experiments set name = %(t)s, source = %(t)s", {"t": f"experiment {HOSTILE}"})
    world.connection.execute(
        """
        update runs set owner = %(t)s, reason = %(t)s, note = %(t)s, command = %(t)s, host = %(t)s, status = 'failed',
                        params = jsonb_build_object(%(t)s::text, %(t)s::text)
        """,
        {"t": HOSTILE},
    )
    world.connection.execute(
        "insert into software_metrics select run_id, %s, 1, now(), 1, 0.5 from runs", (f"loss {HOSTILE}",)
    )
    world.connection.execute(
        "insert into highlights select run_id, started_at, ended_at, 'training', %s, 0.5 from runs", (HOSTILE,)
    )
    world.connection.execute("update series set metric = metric || %(t)s, device = %(t)s", {"t": HOSTILE})
    world.connection.execute("update metrics set help = %s, unit = %s", (HOSTILE, f"[link=http://x]{HOSTILE}"))
    world.connection.execute("select summarise(run_id) from runs")
    assert len(ids) == 2
    return world


def test_no_command_passes_on_what_commands_a_terminal(
    hostile: World, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DSN", hostile.database.dsn)
    monkeypatch.setenv("BENCH_HOME", str(hostile.database.settings.home))
    Path("targets.yml").write_text('- targets: ["\\e]0;owned\\a:1"]\n  "\\e": 1\n')
    rows = f"Experiment,Workload,File,Name,{{}}\n30,1,none.py,{HOSTILE},x\n".replace("\r", "")
    Path("none.py").touch()
    Path("hostile.csv").write_text(rows.format(f"Color{HOSTILE}".replace("\r", "")))
    Path("other.csv").write_text(rows.format("Devices"))
    outputs = {" ".join(words): command(*words) for words in COMMANDS}
    assert {words for words, (_, out, err) in outputs.items() if RAW.search(out + err)} == set()
    failed = {"interference 20": 1, "watch 20": 1}  # a run alone, and runs that failed
    assert {words: status for words, (status, _, _) in outputs.items() if status} == {
        **failed,
        **dict.fromkeys(REFUSED, 2),
    }
    assert "]0;owned" in outputs["list 20"][1], "what is left of it shows that it was there"


def test_what_is_printed_stays_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    made = Table("name", "status")
    for name in (HOSTILE, Text(f"[b]{HOSTILE}"), "x" * 60):
        made.add_row(escape(name) if isinstance(name, str) else name, "failed")
    Terminal(width=200).print(made)
    lines = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert len(lines) == 3
    assert len({line.index("failed") for line in lines}) == 1


def test_colors_of_ours_stay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Terminal().print(f"[red]ours[/] {escape(HOSTILE)} [link=https://example.org]there[/link]")
    assert re.findall(r"\x1b[^m]*m?", capsys.readouterr().out) == ["\x1b[31m", "\x1b[0m"]


def test_progress_and_log_lines_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.notify(escape(HOSTILE))
    progress.started("a" * 32, "20/1/1", HOSTILE)
    progress.ended("a" * 32, "20/1/1", HOSTILE, "failed", 1.0, HOSTILE)
    assert not RAW.search(capsys.readouterr().err)
    script = (
        "import logging, sys; from hypergauge.cli import main\n"
        "sys.argv = ['bench', '--version']\n"
        "try: main()\n"
        "except SystemExit: logging.getLogger('collector').warning('%s of a target', sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], input=HOSTILE, capture_output=True, text=True, check=True
    )
    assert "owned" in done.stderr
    assert not RAW.search(done.stderr)
