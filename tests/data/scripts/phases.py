"""Is in the phase train, epoch 3, behind step 7, until a file appears, and ends with the exit status in it."""

import sys
import time
from pathlib import Path

from hypergauge import track

gate = Path(sys.argv[1])
with track.phase("load"):
    data = bytearray(50_000_000)
with track.phase("train"), track.epoch(3):
    with track.step(7):
        data[:] = bytes(len(data))
    while not gate.exists():
        sum(range(10_000))
        time.sleep(0.01)
raise SystemExit(int(gate.read_text() or 0))
