"""`bench run` in a shell: standard input, Ctrl-C, Ctrl-Z, exit status, and processes that outlive the command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.home import COMMAND, Home, processes_of
from tests.support.terminal import Terminal
from tests.support.waiting import HUNG_SECONDS, wait_for

MEGABYTES = 10
# It begins a step at each interrupt, and ends at the second.
TWO_INTERRUPTS = """
import signal, sys, time
def take(number, frame):
    global left
    left -= 1
    print(signal.Signals(number).name, "taken", flush=True)
left = 2
signal.signal(signal.SIGINT, take)
signal.signal(signal.SIGTERM, take)
print("ready", flush=True)
while left:
    time.sleep(0.05)
sys.exit(7)
"""


def run(home: Home, *words: str, input: bytes | Path | None = None, options: tuple[str, ...] = ()) -> tuple[int, bytes]:  # noqa: A002
    """Run a command with an input: bytes through a pipe, or a file; return its exit status and output."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(input.open("rb")) if isinstance(input, Path) else None
        done = subprocess.run(
            [*COMMAND, "run", *options, "--", *words],
            input=input if isinstance(input, bytes) else None,
            stdin=file if file else subprocess.DEVNULL if input is None else None,
            stdout=subprocess.PIPE, env=home.environment, cwd=home.folder, check=False, timeout=HUNG_SECONDS,
        )  # fmt: skip
    return done.returncode, done.stdout


@contextlib.contextmanager
def at_a_terminal(
    home: Home, name: str, *words: str, wrapped: str = ""
) -> Iterator[tuple[Terminal, Callable[[], str]]]:
    """Provide the terminal of a run, and a function that returns the run's id once it has started."""
    command = [*COMMAND, "run", "--name", name, "--", *words]
    terminal = Terminal(
        ["bash", "-ic", wrapped, "bash", *command] if wrapped else command, home.environment, home.folder
    )

    def run_id() -> str:
        found = wait_for(
            lambda: home.query("select run_id from runs where name = %s and status = 'running'", name), "the run"
        )
        return str(found[0]["run_id"])

    try:
        yield terminal, run_id
    finally:
        terminal.end()


def ended(home: Home, name: str) -> tuple[str, int | None, str | None]:
    [row] = home.query("select status, exit_code, reason from runs where name = %s", name)
    return row["status"], row["exit_code"], row["reason"]


def test_a_program_comes_from_standard_input(home: Home) -> None:
    script = home.folder / "program.py"
    script.write_text("print('it', 'ran')\n")
    assert run(home, sys.executable, "-", input=script, options=("--name", "program")) == (0, b"it ran\n")
    [row] = home.query("select run_id from runs where name = 'program'")
    printed = " ".join(home.bench("schedule", "--from-run", row["run_id"]).split())
    assert f"its standard input was {script}, and a repetition has none" in printed
    assert run(home, sys.executable, "-", input=script.read_bytes()) == (0, b"it ran\n")


def test_much_input_arrives_whole(home: Home) -> None:
    assert run(home, "wc", "-c", input=bytes(MEGABYTES * 2**20)) == (0, b"%d\n" % (MEGABYTES * 2**20))


def test_the_writer_notices_that_the_script_closed_its_input(home: Home) -> None:
    words = [*COMMAND, "run", "--", "bash", "-c", "head -c 3; exec <&-; sleep 60 & wait $!"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home.environment, cwd=home.folder
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"abc")
        process.stdin.flush()
        assert process.stdout.read(3) == b"abc"

        def is_closed() -> bool:
            assert process.stdin is not None
            try:
                os.write(process.stdin.fileno(), b"more")
            except BrokenPipeError:
                return True
            return False

        with contextlib.suppress(BrokenPipeError):
            wait_for(is_closed, "the closed pipe")
            process.send_signal(signal.SIGINT)
            process.stdin.close()


def test_without_an_input_a_run_has_none(home: Home) -> None:
    assert run(home, "cat") == (0, b"")
    closed = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *COMMAND, "run", "--", "cat"],
        stdout=subprocess.PIPE, env=home.environment, cwd=home.folder, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stdout) == (0, b"")


def test_each_repetition_reads_the_same_file(home: Home) -> None:
    file = home.folder / "input.txt"
    file.write_text("the same\n")
    assert run(home, "cat", input=file, options=("--repeat", "2")) == (0, b"the same\n" * 2)


def test_rows_of_a_file_have_no_input(home: Home) -> None:
    script = home.folder / "reads.py"
    script.write_text("import sys; sys.exit(bool(sys.stdin.read()))\n")
    sheet = home.sheet("input", "Experiment,Workload,File", [f"70,1,{script}"])
    done = subprocess.run(
        [*COMMAND, "schedule", sheet.path], input=b"text", env=home.environment, cwd=home.folder, check=False,
    )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -SEGV $$", 139), ("kill $$", 143)])
def test_the_exit_status_is_that_of_the_script(home: Home, script: str, status: int) -> None:
    assert run(home, "bash", "-c", script)[0] == status


def test_the_exit_status_of_what_cannot_start_is_that_of_shells(home: Home) -> None:
    file = home.folder / "no-program"
    file.write_text("")
    assert [run(home, "./missing")[0], run(home, "./no-program")[0]] == [127, 126]


def test_a_script_asks_its_user(home: Home) -> None:
    ask = "import sys; print('tty', sys.stdin.isatty()); print('hello ' + input('name? '))"
    with at_a_terminal(home, "asks", sys.executable, "-c", ask) as (terminal, _):
        wait_for(lambda: "name? " in terminal.text, "the question")
        terminal.press("Ada\r")
        printed = terminal.wait(0)
    assert "tty True" in printed
    assert "hello Ada" in printed


def test_ctrl_c_is_an_interrupt_of_the_script(home: Home) -> None:
    with at_a_terminal(home, "interrupted", sys.executable, "-c", TWO_INTERRUPTS) as (terminal, _):
        wait_for(lambda: "ready" in terminal.text, "the script")
        terminal.press("\x03")
        wait_for(lambda: "SIGINT taken" in terminal.text, "the first interrupt")
        wait_for(lambda: "continues" in terminal.text, "what the command says of it")
        terminal.press("\x03")
        terminal.wait(7)
    assert "SIGTERM" in terminal.text, "the second one ends the run in order"
    assert ended(home, "interrupted") == ("stopped", 7, "stopped on request")


def test_a_script_that_dies_of_the_interrupt(home: Home) -> None:
    script = "import time; print('ready', flush=True); time.sleep(600)"
    with at_a_terminal(home, "dies", sys.executable, "-c", script) as (terminal, _):
        wait_for(lambda: "ready" in terminal.text, "the script")
        terminal.press("\x03")
        terminal.wait(130)
    assert "KeyboardInterrupt" in terminal.text
    assert ended(home, "dies") == ("stopped", 130, "interrupted")


def test_a_script_that_saves_and_succeeds_after_an_interrupt(home: Home) -> None:
    script = "import time\nprint('ready', flush=True)\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('saved')"
    with at_a_terminal(home, "saves", sys.executable, "-c", script) as (terminal, _):
        wait_for(lambda: "ready" in terminal.text, "the script")
        terminal.press("\x03")
        assert "saved" in terminal.wait(0)
    assert ended(home, "saves") == ("stopped", 0, "interrupted")


def test_ctrl_z_stops_the_script_and_the_shell_continues_it(home: Home) -> None:
    script = "import time; print('ready', flush=True); print('read', input())"
    with at_a_terminal(
        home,
        "suspended",
        sys.executable,
        "-c",
        script,
        wrapped='"$@"; echo "shell"; read line; echo "got $line"; fg; exit $?',
    ) as (terminal, run_id):
        wait_for(lambda: "ready" in terminal.text, "the script")
        [process] = processes_of(run_id())
        terminal.press("\x1a")
        wait_for(lambda: "shell" in terminal.text, "the shell")
        assert process.status() == psutil.STATUS_STOPPED
        terminal.press("for the shell\r")
        wait_for(lambda: "got for the shell" in terminal.text, "the shell's line")
        wait_for(lambda: process.status() != psutil.STATUS_STOPPED, "its continuation")
        terminal.press("for the script\r")
        terminal.wait(0)
    assert "read for the script" in terminal.text


def test_a_run_in_the_background_leaves_the_terminal_to_the_shell(home: Home) -> None:
    with at_a_terminal(home, "background", "cat", wrapped='"$@" & read line; echo "got $line"; wait; exit $?') as (
        terminal,
        _,
    ):
        wait_for(
            lambda: "background" in terminal.text and "finished" in terminal.text, "the end of a run without input"
        )
        terminal.press("for the shell\r")
        terminal.wait(0)
    assert "got for the shell" in terminal.text


def test_a_killed_command_leaves_no_stopped_run(home: Home) -> None:
    script = "import time; print('ready', flush=True); time.sleep(600)"
    with at_a_terminal(home, "left", sys.executable, "-c", script, wrapped='"$@"; sleep 600') as (terminal, run_id):
        wait_for(lambda: "ready" in terminal.text, "the script")
        [process] = processes_of(found := run_id())
        terminal.press("\x1a")
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "the stop")
        command, *_ = psutil.Process(terminal.process.pid).children()
        command.kill()
        wait_for(lambda: process.status() != psutil.STATUS_STOPPED, "its continuation")
        home.bench("stop", found)


def test_a_lost_terminal_stops_nothing(home: Home, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"import time, pathlib\nprint('ready', flush=True)\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.05)"
    with at_a_terminal(home, "lost", sys.executable, "-c", script) as (terminal, _):
        wait_for(lambda: "ready" in terminal.text, "the script")
        terminal.hang_up()
        time.sleep(0.2)
        gate.touch()
        assert terminal.process.wait(HUNG_SECONDS) == 0
    assert ended(home, "lost") == ("finished", 0, None)


def test_a_process_that_outlives_the_command_is_named_and_ended(home: Home) -> None:
    output = home.bench("run", "--name", "daemon", "--", "bash", "-c", "setsid sleep 1234 & sleep 0.2")
    status, code, reason = ended(home, "daemon")
    assert (status, code) == ("finished", 0)
    assert reason is not None
    assert "sleep (PID " in reason
    assert "outlived the command" in output
    [run_row] = home.query("select run_id from runs where name = 'daemon'")
    assert not processes_of(run_row["run_id"])


def test_helpers_that_end_with_the_command_are_not_named(home: Home) -> None:
    home.bench("run", "--name", "helpers", "--", "bash", "-c", "sleep 0.05 & true")
    assert ended(home, "helpers") == ("finished", 0, None)
