"""Output of a run: shown live, and limited in size."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.home import COMMAND, SCRIPTS, Home, open_gate
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

# Standard output and error, 4 MB in lines, and a last word that is no line.
MUCH = """
import sys
for number in range(200_000):
    print(f"{number:08} to {('output', 'error')[number % 2]}", file=(sys.stdout, sys.stderr)[number % 2])
print("last words", end="")
"""


def test_output_is_live(home: Home) -> None:
    gate = home.folder / "gate-output"
    command = home.start("run", "--name", "followed", "--", sys.executable, SCRIPTS / "gate.py", gate)
    [run] = wait_for(lambda: home.query("select run_id from runs where name = 'followed'"), "the run")
    following = home.start("logs", run["run_id"], "-f")
    wait_for(lambda: following.output.read_text() == "at the gate\n", "the output")
    assert following.process.poll() is None
    gate.touch()
    command.wait()
    assert following.wait() == home.bench("logs", run["run_id"]) == home.output(run["run_id"]).decode()


def test_of_much_output_the_beginning_and_the_end_are_kept(home: Home) -> None:
    home.bench("run", "--name", "talkative", "--output-limit", "1MiB", "--", sys.executable, "-c", MUCH)
    [run] = home.query("select run_id, mlflow_run_id, status from runs where name = 'talkative'")
    shown = home.bench("logs", run["run_id"])
    head, tail = shown.split(" MiB left out …\n")
    assert head.startswith("00000000 to output\n00000001 to error\n")
    assert head[: head.rindex("…")].endswith(("output\n", "error\n"))
    assert tail.endswith("00199999 to error\nlast words")
    assert 500_000 < len(shown) < 2**20
    home.delivered(run["run_id"])
    assert home.artifact(run["mlflow_run_id"]).decode() == home.json("logs", run["run_id"])["output"] == shown
    folder = home.path / "runs" / run["run_id"]
    assert (folder / "output.log").stat().st_blocks * 512 <= 2**20 + 16384


def test_a_limit_that_is_none_is_refused(home: Home) -> None:
    assert "output_limit is 'much'" in home.bench("run", "--output-limit", "much", "--", "true", status=2)


def test_output_is_passed_on_and_nothing_else(home: Home) -> None:
    gate = home.folder / "gate-passed"
    words = [*COMMAND, "run", "--name", "passed", "--", sys.executable, SCRIPTS / "gate.py", gate]
    with subprocess.Popen(
        [*map(str, words)], env=home.environment, cwd=home.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"at the gate\n", "it comes during the run"
        open_gate(gate, 3)
        printed, beside = command.communicate()
    assert (command.returncode, printed) == (3, b"")
    [label] = home.query("select run_id from runs where name = 'passed' and exit_code = 3")
    assert home.output(label["run_id"]) == b"at the gate\n"
    assert b"failed" in beside
    assert b"Next:" not in beside, "no terminal watches"


def test_a_runs_summary_is_in_mlflow(home: Home) -> None:
    home.bench("run", "--name", "summarised", "--", sys.executable, "-c", "import time; time.sleep(3)")
    [run] = home.query("select mlflow_run_id from runs where name = 'summarised'")
    wanted = {"system/cpu_usage_mean", "system/memory_used_max"}
    wait_for(lambda: wanted <= home.mlflow_run(run["mlflow_run_id"])["metrics"].keys(), "the summary")


def test_a_terminal_shows_the_next_command(home: Home) -> None:
    terminal = Terminal(
        [*COMMAND, "run", "--name", "hinted", "--", "printf", "no end of line"], home.environment, home.folder
    )
    printed = terminal.wait(0)
    [run] = home.query("select run_id from runs where name = 'hinted'")
    assert "no end of line\r\n" in printed
    assert f"Next: bench compare {run['run_id'][:8]}" in " ".join(printed.split())
    compared = home.json("compare", run["run_id"])
    assert [one["status"] for one in compared["runs"]] == ["finished"]
    [done] = home.query("select summarised from runs where run_id = %s", run["run_id"])
    assert done == {"summarised": True}, "the comparison has waited for it"


def test_a_repeated_command_is_compared_by_row(home: Home) -> None:
    words = [
        *COMMAND,
        "run",
        "--name",
        "repeated",
        "--repeat",
        "2",
        "--",
        sys.executable,
        "-c",
        "print('once'.upper())",
    ]
    printed = " ".join(Terminal(words, home.environment, home.folder).wait(0).split())
    assert printed.count("ONCE") == 2
    [compare] = re.findall(r"bench (compare \d+/\d+ --by row)", printed)
    [row] = home.json(*compare.split())["rows"]
    assert row["spread"]["duration_seconds"].keys() == {"min", "max"}
    assert home.query("select attempt from runs where name = 'repeated' order by attempt") == [
        {"attempt": 1},
        {"attempt": 2},
    ]
