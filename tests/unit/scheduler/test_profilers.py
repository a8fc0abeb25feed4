"""Profilers around real commands: their start, their exit status, and the order of ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import end_run
from hypergauge.scheduler import profilers
from hypergauge.scheduler.environments.containers import Container, Mount
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.launch.profiled import profiled
from hypergauge.scheduler.profilers import ProfiledCommand, nsight, problems, relay, written_reports
from hypergauge.scheduler.profilers.nsight import Ncu
from hypergauge.scheduler.profilers.word import split_word
from tests.support.fakes.profilers import installed_profilers
from tests.support.waiting import HUNG_SECONDS

PYTHON = sys.executable


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-ins in front of ``PATH``."""
    folder = installed_profilers(tmp_path / "bin", "nsys", "ncu")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    run_folder = RunFolder(tmp_path / "runs" / uuid.uuid4().hex)
    run_folder.create({})
    yield run_folder
    end_run(run_folder.run_id, grace=0)


Start = Callable[..., ProfiledCommand]


def wrapped_words(names: Sequence[str], words: Sequence[str], folder: RunFolder) -> tuple[str, ...]:
    command = Command(tuple(words), folder.path, {})
    return profiled(command, dict(map(split_word, names)), folder).words


@pytest.fixture
def start(folder: RunFolder) -> Start:
    """Start Python with `code` under profilers, as a supervisor does."""

    def start(names: str, code: str, **variables: str) -> ProfiledCommand:
        words = wrapped_words(names.split("+"), [PYTHON, "-c", code], folder)
        with folder.profiler_log.open("wb") as log:
            process = subprocess.Popen(
                words,
                env={**os.environ, "BENCH_RUN_ID": folder.run_id, profilers.MARK: names, **variables},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return ProfiledCommand(process, folder, profilers.around(names))

    return start


def wait_for_output(folder: RunFolder, text: bytes) -> None:
    deadline = time.monotonic() + HUNG_SECONDS
    while not (folder.output.exists() and text in folder.output.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_end(command: ProfiledCommand) -> profilers.CommandEnd:
    deadline = time.monotonic() + HUNG_SECONDS
    while (ended := command.ended()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return ended


# --- command lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "outside", "inside"),
    [
        (
            ("nsys",),
            ("{bin}/nsys profile --output={run}/nsys --force-overwrite=true --trace=cuda,nvtx,osrt --sample=none "
            "--cpuctxsw=none --wait=primary"),
            "train.py --epochs 2",
        ),
        (("ncu",), "{bin}/ncu --target-processes all --force-overwrite --export {run}/ncu", "train.py --epochs 2"),
        (
            ("perf",),
            ("{bin}/perf stat -I 1000 -x ; -e instructions,cycles,LLC-loads,LLC-load-misses,branches,branch-misses,"
            "context-switches,page-faults -o {run}/perf.csv --"),
            "train.py --epochs 2",
        ),
        (("torch",), None, "{package}/torch_trace.py {run}/torch_trace.json.gz train.py --epochs 2"),
        (("perf", "torch"), "{bin}/perf", "{package}/torch_trace.py {run}/torch_trace.json.gz train.py --epochs 2"),
        # perf counts the command alone, in any order of the cell
        (("perf", "ncu"), "{bin}/ncu --target-processes all --force-overwrite --export {run}/ncu {bin}/perf stat", ""),
        (("nsys", "perf"), "{bin}/nsys", ""),
    ],
)  # fmt: skip
def test_what_a_run_is_wrapped_in(
    programs: Path, folder: RunFolder, names: tuple[str, ...], outside: str | None, inside: str
) -> None:
    (programs / "perf").write_text("")
    (programs / "perf").chmod(0o755)
    folders = {"bin": programs, "run": folder.path, "package": Path(relay.__file__).parent}
    line = " ".join(wrapped_words(names, ["/env/bin/python", "train.py", "--epochs", "2"], folder))
    assert line.endswith(inside.format(**folders))
    if outside is None:
        assert line.startswith("/env/bin/python ")
    else:
        assert line.startswith(outside.format(**folders))
        assert f"{PYTHON} -IS {relay.__file__} {folder.path} /env/bin/python " in line
        assert line.count("relay.py") == 1


def test_the_relay_knows_the_mark_by_heart() -> None:
    assert relay._MARK == profilers.MARK  # the relay cannot import our package


@pytest.mark.parametrize(
    ("code", "status"), [("pass", 0), ("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 15)", -15)]
)
def test_a_command_under_py_spy_is_recorded_and_ends_as_it_does(
    start: Start, folder: RunFolder, code: str, status: int
) -> None:
    busy = f"import os, time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: sum(range(9999))\n{code}"
    command = start("py-spy", busy)
    assert wait_for_end(command).returncode == status
    command.end(grace=5)
    assert "<module> (<string>:" in (folder.path / "py-spy.txt").read_text()


def test_options_of_a_row_reach_the_profiler(programs: Path, folder: RunFolder) -> None:
    assert not list(problems(["nsys(trace=cuda,nvtx)"], PYTHON, script=True))
    words = wrapped_words(["nsys(trace=cuda,nvtx)"], ["true"], folder)
    assert "--trace=cuda,nvtx" in words
    assert "--sample=none" in words  # by default
    words = wrapped_words(["ncu(launch-count=40,kernel-name=regex:gemm)"], ["true"], folder)
    at = words.index("--launch-count")
    assert words[at : at + 4] == ("--launch-count", "40", "--kernel-name", "regex:gemm")
    assert profilers.around("nsys(trace=cuda,nvtx)+torch") == "nsys"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nsys(tracing=cuda)", "nsys has no option 'tracing' (did you mean 'trace'?)"),
        ("nsys(sample=all)", "the option sample of nsys cannot be 'all' (one of: none, process-tree, system-wide)"),
        ("ncu(from=20,kernel-name=gemm)", "the options from and kernel-name of ncu exclude each other"),
        ("ncu(launch-count=few)", "the option launch-count of ncu cannot be 'few'"),
        ("py-spy(rate=9)", "py-spy has no option 'rate': it has none"),
    ],
)
def test_options_that_a_profiler_lacks_are_refused(programs: Path, word: str, message: str) -> None:
    assert list(problems([word], PYTHON, script=True)) == [message]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "script", "message"),
    [
        ("nsys", True, "there is no program nsys in PATH: sudo apt-get install nsight-systems"),
        ("ncu", True, "there is no program ncu in PATH: sudo apt-get install nsight-compute"),
        ("perf", True, "there is no program perf in PATH: sudo apt-get install linux-perf (on Ubuntu linux-tools-generic)"),
        ("torch", False, "torch wraps a Python script, and there is none"),
    ],
)  # fmt: skip
def test_a_profiler_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, script: bool, message: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(problems(names.split("+"), PYTHON, script=script)) == [message]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("nsys+ncu", "nsys and ncu exclude each other: a GPU supports one profiler at a time"),
        ("ncu+perf+nsys", "ncu and nsys exclude each other: a GPU supports one profiler at a time"),
    ],
)
def test_profilers_that_exclude_each_other(programs: Path, names: str, message: str) -> None:
    (programs / "perf").write_text("#!/bin/sh\n")
    (programs / "perf").chmod(0o755)
    assert list(problems(names.split("+"), PYTHON, script=True)) == [message]


def test_torch_is_a_profiler_of_the_gpu(programs: Path, tmp_path: Path) -> None:
    to_be_made = str(tmp_path / "env" / "bin" / "python")  # PyTorch in it is unknown until it exists
    expected = ["nsys and torch exclude each other: a GPU supports one profiler at a time"]
    assert list(problems(["nsys", "torch"], to_be_made, script=True)) == expected


def test_an_interpreter_without_pytorch(tmp_path: Path) -> None:
    bare = tmp_path / "env"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", bare], check=True)
    python = f"{bare}/bin/python"
    expected = f"{python} has no package torch: {python} -m pip install torch"
    assert list(problems(["torch"], python, script=True)) == [expected]


def test_profilers_of_containers(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs / "perf").write_text("")
    (programs / "perf").chmod(0o755)
    refused = list(problems(["nsys", "perf", "py-spy", "torch"], None, script=True))
    assert refused == [
        "perf cannot profile inside a container",
        "nsys and torch exclude each other: a GPU supports one profiler at a time",
    ]
    monkeypatch.setattr(nsight, "_SYSTEM_FOLDERS", (programs.parent,))
    [refused_here] = problems(["nsys"], None, script=True)
    assert refused_here.startswith(f"nsys is in {programs.parent}: a container sees it only where")
    monkeypatch.setenv("PATH", str(programs.parent))
    assert list(problems(["nsys"], None, script=True)) == [
        "there is no program nsys in PATH: sudo apt-get install nsight-systems"
    ]


def test_a_profiler_runs_inside_the_container(programs: Path, folder: RunFolder) -> None:
    container = Container("docker", "image", (Mount(Path("/data")),))
    command = Command(("python3", "train.py"), folder.path, {}, python="python3", container=container)
    inside = profiled(command, {"nsys": {}}, folder)
    assert inside.words[-6:] == ("python3", "-IS", relay.__file__, str(folder.path), "python3", "train.py")
    assert inside.words[0] == str(programs / "nsys")
    assert inside.container is not None
    seen = {mount.source: mount.read_only for mount in inside.container.mounts}
    assert seen == {Path("/data"): False, programs.parent: True, Path(relay.__file__): True}
    assert set(inside.container.inherited) == {"BENCH_RUN_ID", profilers.MARK}
    traced = profiled(command, {"torch": {}}, folder)
    assert traced.container is not None
    assert traced.words[0] == "python3"
    assert [mount.source.name for mount in traced.container.mounts] == [
        "data",
        "torch_trace.py",
        "hidden_handler.py",
        "guard.py",
    ]
    assert traced.container.inherited == ("BENCH_RUN_ID",)


@pytest.mark.parametrize(
    ("params", "capabilities", "refused"),
    [
        (None, "0", False),
        ("RmProfilingAdminOnly: 0", "0000000000000000", False),
        ("RmProfilingAdminOnly: 1", "0000000000000000", True),
        ("RmProfilingAdminOnly: 1", "000001ffffffffff", False),  # root
        ("RmProfilingAdminOnly: 1", "0000004000000000", False),  # CAP_PERFMON
        ("RmProfilingAdminOnly: 1", "00000000a80425fb", True),  # root in an ordinary container
    ],
)
def test_counters_of_a_gpu_that_are_for_administrators(
    programs: Path, tmp_path: Path, params: str | None, capabilities: str, refused: bool
) -> None:
    (tmp_path / "proc" / "driver" / "nvidia").mkdir(parents=True)
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "self" / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    if params is not None:
        (tmp_path / "proc" / "driver" / "nvidia" / "params").write_text(f"ResmanDebugLevel: 1\n{params}\n")
    problem = Ncu(tmp_path).problem(PYTHON)
    if refused:
        assert problem is not None
        assert problem.startswith(
            "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM), which the driver reserves for"
        )
        assert "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/" in problem
    else:
        assert problem is None


# --- a command under a profiler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_the_end_is_that_of_the_command(
    programs: Path, folder: RunFolder, start: Start, code: str, returncode: int
) -> None:
    command = start("nsys", code)
    assert wait_for_end(command).returncode == returncode
    command.end(grace=5)
    assert command.process.poll() == 0
    status = returncode if returncode >= 0 else 128 - returncode
    assert (folder.path / "nsys.nsys-rep").read_text() == f"nsys {status}\n"


def test_output_and_circumstances_are_those_of_a_plain_run(programs: Path, folder: RunFolder, start: Start) -> None:
    code = """
import os, signal, sys
print(os.environ["BENCH_RUN_ID"], os.environ.get("BENCH_PROFILERS"), os.getsid(0) == os.getpid())
print({n.name for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
       if signal.getsignal(n) not in (signal.SIG_DFL, signal.default_int_handler)} - {"SIGPIPE"}, file=sys.stderr)
"""
    command = start("ncu", code)
    wait_for_end(command)
    command.end(grace=5)
    assert sorted(folder.output.read_text().splitlines()) == sorted([f"{folder.run_id} None True", "set()"])
    written = folder.profiler_log.read_text()
    assert "==PROF==" in written
    assert "Generated: " in written
    assert written_reports(folder) == [folder.path / "ncu.ncu-rep", folder.profiler_log]


def test_the_time_of_the_report_is_none_of_the_run(programs: Path, folder: RunFolder, start: Start) -> None:
    command = start("nsys", "print('over', flush=True)", FAKE_PROFILER_SECONDS="1.5")
    wait_for_output(folder, b"over")
    over_at = time.monotonic()
    ended = wait_for_end(command)
    assert command.process.poll() is None
    assert ended.ended_at - over_at < 1.0
    command.end(grace=5)
    assert (folder.path / "nsys.nsys-rep").exists()


def test_a_run_that_is_ended_lets_its_profiler_write(programs: Path, folder: RunFolder, start: Start) -> None:
    command = start("nsys", "import time; print('on', flush=True); time.sleep(60)", FAKE_PROFILER_SECONDS="0.5")
    wait_for_output(folder, b"on")
    assert command.ended() is None
    command.end(grace=5)
    assert wait_for_end(command).returncode == -signal.SIGTERM
    assert (folder.path / "nsys.nsys-rep").read_text() == f"nsys {128 + signal.SIGTERM}\n"


def test_a_command_that_does_not_listen_is_killed_and_its_profiler_is_not(
    programs: Path, folder: RunFolder, start: Start
) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    command = start("nsys", code)
    wait_for_output(folder, b"on")
    command.end(grace=0.3)
    assert wait_for_end(command).returncode == -signal.SIGKILL
    assert (folder.path / "nsys.nsys-rep").exists()


def test_what_a_command_leaves_behind_ends_with_it(programs: Path, folder: RunFolder, start: Start) -> None:
    left = "import time; time.sleep(60)"
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {left!r}]).pid)"
    command = start("nsys", code)
    assert wait_for_end(command).returncode == 0
    pid = int(folder.output.read_text())
    assert Path(f"/proc/{pid}").exists()
    command.end(grace=5)
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_profiler_that_does_not_run_the_command(programs: Path, folder: RunFolder, start: Start) -> None:
    command = start("nsys", "pass", FAKE_PROFILER_REFUSES="unrecognised option '--trace'")
    ended = wait_for_end(command)
    assert (ended.returncode, ended.lost_by, ended.log) == (1, "nsys", folder.profiler_log)
    assert folder.profiler_log.read_text() == "unrecognised option '--trace'\n"


def test_a_profiler_that_is_killed_takes_the_command_with_it(programs: Path, folder: RunFolder, start: Start) -> None:
    command = start("nsys", "import time; print('on', flush=True); time.sleep(60)")
    wait_for_output(folder, b"on")
    command.process.kill()
    ended = wait_for_end(command)
    assert (ended.returncode, ended.lost_by) == (-signal.SIGKILL, "nsys")
    command.end(grace=5)
    assert end_run(folder.run_id, grace=0) == 0


def test_a_program_that_cannot_be_started(folder: RunFolder) -> None:
    words = [PYTHON, "-IS", relay.__file__, str(folder.path), "/does/not/exist"]
    assert subprocess.run(words, check=False).returncode == 127
    assert folder.output.read_text() == "cannot start /does/not/exist: No such file or directory\n"
    assert json.loads(folder.command_end.read_text())["returncode"] == 127


def test_a_plain_command(folder: RunFolder) -> None:
    process = subprocess.Popen([PYTHON, "-c", "raise SystemExit(3)"])
    command = ProfiledCommand(process, folder, "")
    ended = wait_for_end(command)
    assert (ended.returncode, ended.log, ended.lost_by) == (3, folder.output, "")
    assert written_reports(folder) == []
