"""Self-logging run: ``witness.py LOG SECONDS PLAN…``, with the standard library alone.

The plan has the end of each attempt: an exit status, the negative number of a signal, or ``wait`` for no end of its own.
Times are of CLOCK_BOOTTIME, which cannot be set. A written line survives a kill, so the log needs no fsync.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main(log: str, seconds: float, plan: list[str]) -> None:
    """Start, wait and end as planned, with a child process that ends only with its run."""
    descriptor = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    attempts = os.pread(descriptor, 1 << 20, 0).count(b'"begin"')
    end = plan[min(attempts, len(plan) - 1)]

    def write(what: str, **more: object) -> None:
        line = {"what": what, "run": os.environ["BENCH_RUN_ID"], "at": time.clock_gettime(time.CLOCK_BOOTTIME), **more}
        os.write(descriptor, json.dumps(line).encode() + b"\n")

    def signaled(number: int, _: FrameType | None) -> None:
        write("signaled")
        die(number)

    def die(number: int) -> None:
        write("end", code=128 + number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    write("begin", started=ticks / os.sysconf("SC_CLK_TCK"), planned=end)
    signal.signal(signal.SIGTERM, signaled)
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        time.sleep(3600)
        os._exit(0)
    time.sleep(3600 if end == "wait" else seconds)
    if (code := int(end)) < 0:
        die(-code)
    write("end", code=code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
