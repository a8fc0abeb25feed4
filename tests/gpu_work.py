"""Processes that are on simulated GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

BUSY = "while True: pass"
IDLE = "import signal; signal.pause()"


@contextmanager
def on_gpu(devices: str, script: str = BUSY, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of some run that sees `devices`, UUIDs joined by commas; it is killed in the end.

    Variables are added to its environment, those given as empty taken from it.
    """
    all_of_them = {"BENCH_RUN_ID": uuid.uuid4().hex, "CUDA_VISIBLE_DEVICES": devices, **variables}
    environment = {**os.environ, **all_of_them}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={name: value for name, value in environment.items() if value}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def eventually(look: Callable[[], T], enough: Callable[[T], bool] = bool, seconds: float = 20.0) -> T:
    """Look until what is seen is `enough`, and return it."""
    deadline = time.monotonic() + seconds
    while not enough(seen := look()):
        assert time.monotonic() < deadline, f"it did not come about in time: {seen!r}"
        time.sleep(0.03)
    return seen
