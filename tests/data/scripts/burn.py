"""Keeps a core busy until it has used some CPU time, in two epochs of ten steps."""

import argparse
import time

from hypergauge import track

arguments = argparse.ArgumentParser()
arguments.add_argument("--seconds", type=float, default=1.0, help="CPU seconds")
arguments.add_argument("--batch-size", type=int, default=1)
options = arguments.parse_args()

for epoch in range(2):
    with track.epoch(epoch):
        for step in range(10 * epoch, 10 * epoch + 10):
            with track.step(step):
                until = time.process_time() + options.seconds / 20
                while time.process_time() < until:
                    pass
