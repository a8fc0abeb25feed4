"""Reasons of runs that did not finish."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.scheduler.supervisor.limits import Memory
from hypergauge.scheduler.supervisor.reasons import CommandExit, exit_code, failure, last_lines

GIB = 1 << 30
TRACEBACK = "Traceback (most recent call last):"
CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of "
    "which 1.12 GiB is free."
)
WORKER = "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed."
JAX = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate"
MLFLOW = [
    "🏃 View run small at: http://127.0.0.1:5000/#/experiments/1/runs/0a", "🧪 View experiment at: http://127.0.0.1:5000/#/experiments/1",
]  # fmt: skip
BEFORE, AFTER = Memory(16 * GIB, "host", 3), Memory(16 * GIB, "host", 4)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (CommandExit(0, ["done"]), None),
        (CommandExit(0, ["done"], BEFORE, AFTER), None),
        (CommandExit(3), "exit status 3"),
        (CommandExit(1, [TRACEBACK, "ValueError: no such layer"]), "exit status 1: ValueError: no such layer"),
        (CommandExit(2, ["usage: train.py", "train.py: error: no --lr"]), "exit status 2: train.py: error: no --lr"),
        (CommandExit(255), "exit status 255"),
        (CommandExit(3, ["no data", *MLFLOW]), "exit status 3: no data"),
        (CommandExit(3, MLFLOW), "exit status 3"),
        (CommandExit(150, ["x"]), "exit status 150: x"),
        (CommandExit(-15), "killed by SIGTERM"),
        (CommandExit(-9, ["step 12"]), "killed by SIGKILL: step 12"),
        (CommandExit(-33), "killed by signal 33"),
        (CommandExit(-11, ["step 12"]), "killed by SIGSEGV (a fault in compiled code): step 12"),
        (CommandExit(-7), "killed by SIGBUS (often a full /dev/shm: see df /dev/shm)"),
        (CommandExit(143), "exit status 143 (SIGTERM)"),
        (CommandExit(139, ["x"]), "exit status 139 (SIGSEGV, a fault in compiled code): x"),
        (
            CommandExit(-9, ["step 12"], BEFORE, AFTER, 12 * GIB + GIB // 10),
            "killed by the kernel for lack of memory; the peak of its largest process was 12.1 GiB of the host's 16.0 GiB",
        ),
        (
            CommandExit(137, [], Memory(GIB // 2, "cgroup", 0), Memory(GIB // 2, "cgroup", 1), GIB // 2 - (1 << 20)),
            "killed by the kernel for lack of memory; the peak of its largest process was 511 MiB of the cgroup's 512 MiB",
        ),
        (
            CommandExit(-9, [], Memory(oom_kills=0), Memory(oom_kills=1), GIB),
            "killed by the kernel for lack of memory; the peak of its largest process was 1.0 GiB",
        ),
        (CommandExit(-9, [], Memory(oom_kills=0), Memory(oom_kills=1)), "killed by the kernel for lack of memory"),
        (CommandExit(-9, [], Memory(oom_kills=None), AFTER), "killed by SIGKILL"),
        (
            CommandExit(1, [TRACEBACK, WORKER], BEFORE, AFTER),
            f"exit status 1: {WORKER}; meanwhile the kernel killed a process for lack of memory",
        ),
        (CommandExit(1, [TRACEBACK, CUDA]), f"out of GPU memory (exit status 1): {CUDA}"),
        (CommandExit(1, [TRACEBACK, CUDA, "wandb: run ended"]), f"out of GPU memory (exit status 1): {CUDA}"),
        (
            CommandExit(
                1, [TRACEBACK, CUDA, TRACEBACK, "torch.distributed.elastic.ChildFailedError:", "train.py FAILED"]
            ),
            f"out of GPU memory (exit status 1): {CUDA}",
        ),
        (
            CommandExit(1, [f"{CUDA}; halving the batch", TRACEBACK, "KeyError: 'lr'"]),
            "exit status 1: KeyError: 'lr'",
        ),
        (
            CommandExit(1, [TRACEBACK, "RuntimeError: CUDA error: out of memory"]),
            "out of GPU memory (exit status 1): RuntimeError: CUDA error: out of memory",
        ),
        (
            CommandExit(1, [JAX]),
            f"out of GPU memory (exit status 1): {JAX}",
        ),
        (CommandExit(1, [TRACEBACK, "MemoryError"]), "out of memory (exit status 1): MemoryError"),
        (
            CommandExit(1, [TRACEBACK, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB"]),
            "out of memory (exit status 1): numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB",
        ),
        (
            CommandExit(
                -6, ["terminate called after throwing an instance of 'std::bad_alloc'", "what():  std::bad_alloc"]
            ),
            "out of memory (killed by SIGABRT): what():  std::bad_alloc",
        ),
        (CommandExit(1, ["MyMemoryErrorHandler: none"]), "exit status 1: MyMemoryErrorHandler: none"),
    ],
)
def test_a_reason_names_what_ended_a_run(command: CommandExit, expected: str | None) -> None:
    assert failure(command) == expected


@pytest.mark.parametrize(("returncode", "expected"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_codes_are_a_shells(returncode: int, expected: int) -> None:
    assert exit_code(returncode) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"", []),
        (b"\n \n\t\n", []),
        (b"one\n  two  \n\n", ["one", "two"]),
        (b"10 %\r20 %\r\x1b[31mred\x1b[0m\n", ["10 %", "20 %", "[31mred[0m"]),
        (b"\xff\xfe bad\n", ["\ufffd\ufffd bad"]),
        (b"x" * 400, ["x" * 300]),
    ],
)
def test_last_lines_are_what_can_be_printed(tmp_path: Path, written: bytes, expected: list[str]) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(written)
    assert last_lines(output) == expected


def test_of_much_output_the_last_lines_are_read(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_lines(output) == [f"line {number}" for number in range(99_960, 100_000)]


def test_a_deleted_output_is_empty(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "output.log") == []
