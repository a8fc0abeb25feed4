"""Runs until a file appears, and ends with the exit status in it."""

import argparse
import os
import signal
import time
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("gate", type=Path)
arguments.add_argument("--deaf", action="store_true", help="ignore SIGTERM")
arguments.add_argument("--grandchild", action="store_true", help="leave one in a session of its own, for ever")
options = arguments.parse_args()

if options.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if options.grandchild and not options.gate.exists():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
print("at the gate")
while not options.gate.exists():
    time.sleep(0.02)
raise SystemExit(int(options.gate.read_text() or 0))
