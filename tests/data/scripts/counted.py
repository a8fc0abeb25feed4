"""Script that counts its samples and waits for its data: twenty steps with an evaluation between."""

import math
import sys
import time

import mlflow

from hypergauge import track

BATCH = int(sys.argv[sys.argv.index("--batch") + 1])


def batches(count):
    for number in range(count):
        time.sleep(0.01)
        yield [number] * BATCH


for epoch in range(2):
    with track.phase("train"), track.epoch(epoch):
        for step, batch in enumerate(track.data(batches(10))):
            with track.step(10 * epoch + step):
                time.sleep(0.02)
                track.count(samples=len(batch), tokens=8 * len(batch), flops=1e6)
    with track.phase("evaluate"):
        time.sleep(0.5)
    mlflow.log_metric("loss", math.nan if epoch else 1.0, step=epoch)
