"""Prints its environment as JSON in its first line, and marks a span."""

import json
import os
import sys
import time
from pathlib import Path

from hypergauge import track

print(
    json.dumps(
        {"python": sys.executable, "variables": dict(os.environ), "arguments": sys.argv[1:], "folder": str(Path.cwd())}
    )
)
with track("inside"):
    until = time.monotonic() + 2.0
    while time.monotonic() < until or time.process_time() < 0.6:  # a busy machine gives less than a core
        sum(range(10_000))
