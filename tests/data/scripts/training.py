"""A training that logs to MLflow and reports its phases, epochs and steps."""

import mlflow

from hypergauge import track

with track.phase("train"):
    for epoch in range(2):
        with track.epoch(epoch):
            for step in range(3):
                with track.step(step):
                    mlflow.log_metric("loss", 1 / (1 + 3 * epoch + step), step=3 * epoch + step)
