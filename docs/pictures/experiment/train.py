"""Training with the phases of a usual script, for pictures: it loads, trains, evaluates each epoch, and saves."""

from __future__ import annotations

import argparse
import pickle
import time
from pathlib import Path

import mlflow
import numpy as np
from hypergauge import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

_STEPS = 20  # of an epoch


def main() -> None:
    """Train, and log loss and accuracy."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--hidden", type=int, default=96, help="neurons in the hidden layer")
    arguments.add_argument("--epochs", type=int, default=4)
    arguments.add_argument("--passes", type=int, default=50, help="passes over the images in a step")
    arguments.add_argument("--threads", type=int, default=1, help="threads of the linear algebra")
    options = arguments.parse_args()
    model = MLPClassifier((options.hidden,), learning_rate_init=1e-4, random_state=0)

    with track.phase("load"):
        digits = load_digits()
        images, unseen, labels, truth = train_test_split(digits.data / 16, digits.target, random_state=0)
        time.sleep(5)  # as a download
    shuffle = np.random.default_rng(0)
    with threadpool_limits(options.threads):
        for epoch in range(options.epochs):
            with track.epoch(epoch), track.phase("train"):
                for step in range(epoch * _STEPS, (epoch + 1) * _STEPS):
                    with track.step(step):
                        for _ in range(options.passes):
                            order = shuffle.permutation(len(images))
                            model.partial_fit(images[order], labels[order], classes=range(10))
                    mlflow.log_metric("loss", model.loss_, step=step)
            with track.phase("evaluate"):
                mlflow.log_metric("accuracy", model.score(unseen, truth), step=(epoch + 1) * _STEPS - 1)
                time.sleep(4)  # as a slow metric
    with track.phase("save"):
        Path("model.pickle").write_bytes(pickle.dumps(model))


if __name__ == "__main__":
    main()
