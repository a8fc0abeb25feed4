"""Relay between a profiler and a command: ``python -IS relay.py RUN_FOLDER COMMAND…``.

A profiler prints what it does, and not all pass on how the command ended (``perf stat -I`` gives 0 whatever it was). So
the command gets the run's output for itself, and its end is written to the run's folder. It begins as it would without
a profiler: in a session of its own. It is run by a bare interpreter, and imports nothing of ours.
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
    """Run the command, and return its exit status as a shell would."""
    # Who ends the run ends the command; this has to outlive it. Handlers, since what is ignored would be inherited.
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
    with open(temporary, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes as long to import as all else
        json.dump({"returncode": status, "ended_at": time.monotonic()}, file)
    os.replace(temporary, f"{folder}/command.json")  # noqa: PTH105
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
