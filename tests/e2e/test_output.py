"""What a run writes shows while it goes on, and stays within bounds wherever it is kept."""

from __future__ import annotations

import sys

from tests.e2e.home import SCRIPTS, Home, wait_for

# Standard output and error, 4 MB in lines, and a last word that is no line.
MUCH = """
import sys
for number in range(200_000):
    print(f"{number:08} to {('output', 'error')[number % 2]}", file=(sys.stdout, sys.stderr)[number % 2])
print("last words", end="")
"""


def test_output_shows_while_the_run_goes_on(home: Home) -> None:
    gate = home.folder / "gate-output"
    command = home.start("run", "--name", "followed", "--", sys.executable, SCRIPTS / "gate.py", gate)
    [run] = wait_for(lambda: home.ask("select run_id from runs where name = 'followed'"), "the run")
    following = home.start("logs", run["run_id"], "-f")
    wait_for(lambda: following.output.read_text() == "at the gate\n", "the output")
    assert following.process.poll() is None
    gate.touch()
    command.wait()
    assert following.wait() == home.bench("logs", run["run_id"]) == home.output(run["run_id"]).decode()


def test_of_much_output_the_beginning_and_the_end_are_kept(home: Home) -> None:
    home.bench("run", "--name", "talkative", "--output-limit", "1MiB", "--", sys.executable, "-c", MUCH)
    [run] = home.ask("select run_id, mlflow_run_id, status from runs where name = 'talkative'")
    shown = home.bench("logs", run["run_id"])
    head, tail = shown.split(" MiB left out …\n")
    assert head.startswith("00000000 to output\n00000001 to error\n")
    assert head[: head.rindex("…")].endswith(("output\n", "error\n"))
    assert tail.endswith("00199999 to error\nlast words")
    assert 500_000 < len(shown) < 2**20
    assert home.artifact(run["mlflow_run_id"]).decode() == home.json("logs", run["run_id"])["output"] == shown
    folder = home.path / "runs" / run["run_id"]
    assert (folder / "output.log").stat().st_blocks * 512 <= 2**20 + 16384


def test_a_limit_that_is_none_is_refused(home: Home) -> None:
    assert "output_limit is 'much', but must be a size such as 512MiB" in home.bench(
        "run", "--output-limit", "much", "--", "true", status=2
    )
