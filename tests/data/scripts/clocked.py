"""Keeps a core and some memory busy; its first and last line are the wall clock."""

import time

print(time.time())

import argparse
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("--seconds", type=float, default=1.0)
arguments.add_argument("--megabytes", type=int, default=64)
arguments.add_argument("--api-key")
arguments.add_argument("--gate", type=Path, help="file to wait for after that time")
options = arguments.parse_args()

memory = bytearray(options.megabytes << 20)  # at once: a copy would be the peak of its memory
until = time.monotonic() + options.seconds
while time.monotonic() < until:
    sum(memory[: 1 << 16])
while options.gate and not options.gate.exists():
    time.sleep(0.02)
print(time.time())
