"""Uses so many seconds of one core's time, in steps of a tenth, and writes down when it began, ended, and was where.

The core is the first that it may use, and so the same for all such processes.
"""

import time

lines = [repr(time.time())]

import os
import sys
from pathlib import Path

from hypergauge import track

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
steps = round(10 * seconds)
begun = time.process_time()
for step in range(steps):
    with track.step(step):
        while time.process_time() - begun < (step + 1) / 10:
            sum(range(1000))
    lines.append(repr(time.time()))
(folder / os.environ["BENCH_RUN_ID"]).write_text("\n".join(lines))
