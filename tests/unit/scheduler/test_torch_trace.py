"""Scripts under PyTorch's profiler: an unchanged environment, and a trace."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.scheduler.profilers import PROFILERS
from tests.support.interpreters import needs, python_with
from tests.support.tuples import BUILD, SLOW_LIST
from tests.support.waiting import HUNG_SECONDS

TORCH_PYTHON = python_with("torch") or ""

TRAIN = """
import os, sys, time, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    loss = model(torch.ones(4, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 10: print("ten", flush=True)
    time.sleep(float(sys.argv[2]))
print("trained", flush=True)
sys.exit(int(sys.argv[3]))
"""
STEP = """
import os, signal, sys, time, torch
from torch.profiler import profile, record_function, schedule
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(before=lambda: None):
    def closure():
        before()
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).sum()
        loss.backward()
        return loss
    optimizer.step(closure)
    time.sleep(0.01)
"""
WITHOUT_STEPS = """
import os, signal, time, torch
from torch.profiler import profile
def step(): pass
"""
INFER = """
import sys, time, torch
model, end, recorded = torch.nn.Linear(8, 2), time.monotonic() + 60, 0
while recorded < 50 and time.monotonic() < end:
    recorded += torch.autograd._profiler_enabled()
    model(torch.ones(4, 8))
    tuple(time.sleep(0.001) for _ in range(20))
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "run" / PROFILERS["torch"].report


@pytest.fixture
def wrap(tmp_path: Path, trace: Path) -> Callable[..., list[str]]:
    """Return the command line of a script under the profiler."""

    def wrap(code: str, *params: str, python: str = sys.executable) -> list[str]:
        trace.parent.mkdir(exist_ok=True)
        (tmp_path / "script.py").write_text(code)
        return PROFILERS["torch"].wrap([python, str(tmp_path / "script.py"), *params], trace.parent, {})

    return wrap


@pytest.fixture
def run(wrap: Callable[..., list[str]], tmp_path: Path) -> Run:
    """Run a script to its end."""

    def run(code: str, *params: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        words = wrap(code, *params, python=python)
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=HUNG_SECONDS, cwd=tmp_path)

    return run


def events(trace: Path) -> Counter[str]:
    """Return the number of recorded events by name."""
    with gzip.open(trace, "rt") as file:
        return Counter(event["name"] for event in json.load(file)["traceEvents"] if event.get("ph") == "X")


def logged(trace: Path) -> list[str]:
    """Return the lines of the log of the run's profilers."""
    return trace.with_name("profiler.log").read_text().splitlines()


# --- without PyTorch --------------------------------------------------------------------------------------------------


def test_a_script_finds_what_it_would_find(run: Run, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    code = """
import atexit, beside, os, pickle, signal, sys, __main__
def here(): return "here"
print([__name__, __file__, sys.argv, beside.NAME, sys.path[0], "torch" in sys.modules])
print(__main__.here is here and pickle.loads(pickle.dumps(here)) is here, sys._getframe().f_code.co_flags & 0x1000000)
print([signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGURG)], __spec__, __doc__)
atexit.register(lambda: print(here()))
"""
    done = run(code, "--hidden", "3")
    script = str(tmp_path / "script.py")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        str(["__main__", script, [script, "--hidden", "3"], "beside", str(tmp_path), False]),
        "True 0",
        "[True, True] None None",
        "here",
    ]


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("pass", 0, []),
        ("raise SystemExit(5)", 5, []),
        ("raise ValueError('no such layer')", 1, ["ValueError: no such layer"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, []),
        ("def (", 1, ["SyntaxError: invalid syntax"]),
    ],
)
def test_a_script_ends_as_it_would_end(run: Run, trace: Path, code: str, status: int, last: list[str]) -> None:
    done = run(code)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (status, last)
    assert not trace.exists()


def test_workers_of_a_script(run: Run) -> None:
    code = """
import multiprocessing, os
def square(x): return x * x
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(square, [1, 2, 3]))
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("[1, 4, 9]\n" * 2, "")


# --- with PyTorch -----------------------------------------------------------------------------------------------------


@needs("torch")
def test_a_training_leaves_a_trace_of_twenty_steps(run: Run, trace: Path) -> None:
    done = run(TRAIN, "40", "0", "7", python=TORCH_PYTHON)
    assert (done.returncode, done.stdout) == (7, "ten\ntrained\n"), done.stderr
    found = events(trace)
    assert found["Optimizer.step#SGD.step"] == 20
    assert found["aten::linear"] == 20
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


@needs("torch")
def test_a_training_writes_nothing_that_is_not_its_own(run: Run) -> None:
    """Kineto writes lines for a profiler of the script, and none for the trace."""
    variable = "print('KINETO_LOG_LEVEL' in os.environ, os.system('test -z \"$KINETO_LOG_LEVEL\"'))\n"
    code = f"""
for n in range(30):
    step()
    if n == 10: {variable}
{variable}print(file=sys.stderr, flush=True)
with profile(): pass
"""
    done = run(STEP + code, python=TORCH_PYTHON)
    ours, own = done.stderr.split("\n", 1)
    assert (done.stdout, ours) == ("False 0\n" * 2, "")
    assert [word for line in own.splitlines() for word in line.split() if "profiler" in word] == [
        "profiler_start",
        "profiler_stop",
    ]


@needs("torch")
def test_a_script_without_an_optimizer_leaves_a_trace_of_its_first_seconds(run: Run, trace: Path) -> None:
    done = run(SLOW_LIST + INFER, python=TORCH_PYTHON)
    assert done.returncode == 0, done.stderr
    assert events(trace)["aten::linear"] >= 50


@needs("torch")
def test_a_script_that_is_too_short_is_reported(run: Run, trace: Path) -> None:
    done = run(TRAIN, "2", "0", "0", python=TORCH_PYTHON)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert logged(trace) == ["PyTorch profiler: there is no trace, since the script ended before its step 4"]
    assert not trace.exists()


@needs("torch")
def test_a_script_that_is_ended_leaves_what_there_is(wrap: Callable[..., list[str]], trace: Path) -> None:
    process = subprocess.Popen(wrap(TRAIN, "100", "0.2", "0", python=TORCH_PYTHON), stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ten\n"
        process.terminate()
        assert process.wait(HUNG_SECONDS) == -signal.SIGTERM
    assert 4 <= events(trace)["Optimizer.step#SGD.step"] < 20


@needs("torch")
def test_a_script_that_hangs_in_c_is_ended_by_a_signal(wrap: Callable[..., list[str]]) -> None:
    code = """
import ctypes
for n in range(6): step()
print("hangs", flush=True)
lock = ctypes.create_string_buffer(64)
while True: ctypes.CDLL(None).pthread_mutex_lock(lock)
"""
    process = subprocess.Popen(wrap(STEP + code, python=TORCH_PYTHON), stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hangs\n"
        process.terminate()
        try:
            assert process.wait(HUNG_SECONDS) == -signal.SIGTERM
        finally:
            process.kill()


@needs("torch")
@pytest.mark.parametrize(
    ("function", "code"),
    [
        pytest.param("start", "for n in range(30): step()", id="at-the-begin"),
        pytest.param("start", "while time.monotonic() < end: time.sleep(0.01)", id="without-steps"),
        pytest.param("stop", "for n in range(30): step()", id="at-the-end"),
        pytest.param("export_chrome_trace", "for n in range(30): step()", id="in-the-export"),
        pytest.param("export_chrome_trace", "for n in range(8): step()\nwith profile(): pass", id="at-a-profiler"),
        pytest.param(
            "export_chrome_trace",
            "for n in range(8): step()\nif not os.fork(): os._exit(0)\nos.wait()\nfor n in range(30): step()",
            id="at-a-fork",
        ),
    ],
)
def test_an_error_of_a_signal_handler_reaches_the_script(run: Run, trace: Path, function: str, code: str) -> None:
    """The signal arrives while the launcher calls a function of the profiler."""
    begin = f"""
end = time.monotonic() + 30
class TimedOut(OSError): pass
def late(*_): raise TimedOut
signal.signal(signal.SIGUSR1, late)
def interrupted(*_): signal.raise_signal(signal.SIGUSR1)
before, profile.{function} = profile.{function}, interrupted
"""
    end = f"""
profile.{function} = before
print(torch.autograd._profiler_enabled(), flush=True)
for n in range(30): step()
os.kill(os.getpid(), signal.SIGTERM)
"""
    indented = code.replace("\n", "\n    ")
    middle = f"try:\n    {indented}\n    print('not timed out')\nexcept TimedOut: print('timed out')\n"
    base = WITHOUT_STEPS if "step" not in code else STEP
    done = run(base + begin + middle + end, python=TORCH_PYTHON)
    assert (done.returncode, done.stdout.split("\n")) == (-signal.SIGTERM, ["timed out", "False", ""]), done.stderr
    assert logged(trace) == [
        "PyTorch profiler: there is no trace, since a signal handler of the script raised an error"
    ]
    assert [path.name for path in trace.parent.iterdir()] == ["profiler.log"]


@needs("torch")
def test_a_signal_handler_after_the_script_changes_no_status(run: Run, trace: Path) -> None:
    code = """
def late(*_): raise TimeoutError
signal.signal(signal.SIGUSR1, late)
profile.export_chrome_trace = lambda *_: signal.raise_signal(signal.SIGUSR1)
for n in range(8): step()
"""
    done = run(STEP + code, python=TORCH_PYTHON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not trace.exists()


@needs("torch")
def test_a_script_with_a_profiler_of_its_own_runs_to_its_end(run: Run) -> None:
    code = """
import torch, time
from torch.profiler import profile
with profile():
    torch.ones(3).sum()
    time.sleep(3)
print("done")
"""
    assert run(code, python=TORCH_PYTHON).stdout == "done\n"


@needs("torch")
@pytest.mark.parametrize(
    ("code", "printed"),
    [
        pytest.param(
            """
with profile(schedule=schedule(wait=5, warmup=1, active=3, repeat=1)) as own:
    for n in range(60): step(); own.step()
print(sum(event.name == "aten::linear" for event in own.events()))
""",
            "3\n",
            id="schedule",
        ),
        pytest.param(
            """
cycles = []
with profile(schedule=schedule(wait=6, warmup=2, active=3), on_trace_ready=cycles.append) as own:
    for n in range(60): step(); own.step()
print(len(cycles))
""",
            "5\n",
            id="repeating-schedule",
        ),
        pytest.param(
            """
for n in range(40):
    with torch.autograd.profiler.profile() as own: step()
print(own.key_averages().table().count("aten::linear"))
""",
            "1\n",
            id="each-step",
        ),
        pytest.param(
            """
own = profile()
for n in range(40):
    if n == 6: own.start()
    step()
own.stop()
print(sum(event.name == "aten::linear" for event in own.events()))
""",
            "34\n",
            id="from-a-step",
        ),
        pytest.param(
            """
own = profile()
for n in range(8): step()
with record_function("epoch"):
    step(own.start)
for n in range(400): model(torch.ones(4, 8))
own.stop()
print(sum(event.name == "aten::linear" for event in own.events()))
""",
            "401\n",
            id="within-ranges",
        ),
        pytest.param(
            """
import threading
def other():
    with profile() as own: torch.ones(3).sum()
    print(len(own.events()) > 0)
thread = threading.Thread(target=other)
for n in range(30):
    if n == 10: thread.start()
    step()
thread.join()
""",
            "True\n",
            id="other-thread",
        ),
        pytest.param(
            BUILD
            + """
for n in range(8): step()
builder.start()
with profile() as own: step()
builder.join()
print(len(built))
""",
            "100\n",
            id="beside-a-thread",
        ),
    ],
)
def test_the_recording_yields_to_a_profiler_of_the_script(run: Run, trace: Path, code: str, printed: str) -> None:
    done = run(STEP + code, python=TORCH_PYTHON)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    what = "the trace ends early" if trace.exists() else "there is no trace"
    assert logged(trace) == [f"PyTorch profiler: {what}, since the script uses PyTorch's profiler itself"]
    if trace.exists():
        assert 1 <= events(trace)["aten::linear"] < 20


@needs("torch")
def test_a_forked_child_ends_as_it_would_end(run: Run, trace: Path) -> None:
    code = """
for n in range(30):
    step()
    if n in (10, 20):
        child = os.fork()
        if not child:
            sys.stdout.write("child\\n")
            sys.exit(n)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    done = run(STEP + code, python=TORCH_PYTHON)
    assert (done.returncode, done.stdout) == (0, "child\n10\nchild\n20\n"), done.stderr
    assert "Exception" not in done.stderr
    assert 1 <= events(trace)["aten::linear"] < 20
    assert logged(trace) == ["PyTorch profiler: the trace ends early, since the script forks a process"]


@needs("torch")
def test_a_script_finds_the_handlers_that_it_would_find(run: Run, trace: Path) -> None:
    code = """
for n in range(30):
    step()
    if n == 8:
        print(torch.autograd._profiler_enabled(), signal.getsignal(signal.SIGURG) is signal.SIG_DFL)
    if n == 10:
        before = signal.getsignal(signal.SIGTERM)
        def handler(number, frame):
            print("handled", flush=True)
            if callable(before): before(number, frame)
        print(before is signal.SIG_DFL, signal.signal(signal.SIGTERM, handler) is signal.SIG_DFL, flush=True)
        print(signal.getsignal(signal.SIGTERM) is handler, flush=True)
    if n == 12:
        os.kill(os.getpid(), signal.SIGTERM)
print(signal.getsignal(signal.SIGTERM) is handler)
"""
    done = run(STEP + code, python=TORCH_PYTHON)
    assert (done.returncode, done.stdout.split()) == (0, [*["True"] * 5, "handled", "True"]), done.stderr
    assert events(trace)["aten::linear"] == 20
