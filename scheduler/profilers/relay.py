"""Relay between a profiler and a command: ``python -IS relay.py RUN_FOLDER COMMAND…``.

Profilers print messages of their own, and some hide the command's exit status (``perf stat -I`` always returns 0). The
relay therefore sends the command's output to the run's output file, and writes its exit to the run's folder. The
command has its own session, as without a profiler. A bare interpreter runs the relay, which imports only the standard
library.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

_MARK = "BENCH_PROFILERS"


def main(folder: str, words: list[str]) -> int:
    """Run the command; return its exit status as a shell does."""
    # The supervisor ends the command, and the relay must outlive it. Handlers, because the command would inherit
    # ignored signals.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    environment = {name: value for name, value in os.environ.items() if name != _MARK}
    output = os.open(f"{folder}/output.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        command = subprocess.Popen(words, stdout=output, stderr=output, env=environment, start_new_session=True)
    except OSError as error:
        os.write(output, f"cannot start {words[0]}: {error.strerror}\n".encode())
        status = 127
    else:
        status = command.wait()
    temporary = f"{folder}/.command.json.{os.urandom(8).hex()}"
    with open(temporary, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib would double the import time
        json.dump({"returncode": status, "ended_at": time.monotonic()}, file)
    os.replace(temporary, f"{folder}/command.json")  # noqa: PTH105
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
