"""Training on handwritten digits: scikit-learn's 1,797 images, and copies shifted by one pixel.

The script uses hypergauge only for optional spans (`track`), and logs to MLflow as usual.
"""

from __future__ import annotations

import argparse
import os

import mlflow
import numpy as np
from hypergauge import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits


def shifted(images: np.ndarray) -> np.ndarray:
    """Return the images (n, 8, 8) and their copies shifted by one pixel in four directions: (5n, 64)."""
    moves = [(0, 0), (1, 1), (-1, 1), (1, 2), (-1, 2)]
    return np.concatenate([np.roll(images, shift, axis) if axis else images for shift, axis in moves]).reshape(-1, 64)


def main() -> None:
    """Train, and log the accuracy on unseen images."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--hidden", type=int, default=128, help="neurons in the hidden layer")
    arguments.add_argument("--epochs", type=int, default=20)
    arguments.add_argument("--batch-size", type=int, default=64)
    arguments.add_argument("--threads", type=int, default=1, help="threads of the linear algebra")
    arguments.add_argument("--cores", type=int, help="limit of the cores")
    options = arguments.parse_args()
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])

    with track.phase("load"):
        digits = load_digits()
        images, unseen, labels, truth = train_test_split(digits.images / 16, digits.target, random_state=0)
        inputs, targets = shifted(images), np.tile(labels, 5)

    model = MLPClassifier((options.hidden,), batch_size=options.batch_size, random_state=0)
    shuffle = np.random.default_rng(0)
    with threadpool_limits(options.threads), track.phase("train"):
        for epoch in range(options.epochs):
            with track.epoch(epoch):
                order = shuffle.permutation(len(inputs))
                model.partial_fit(inputs[order], targets[order], classes=range(10))
                accuracy = model.score(unseen.reshape(-1, 64), truth)
            mlflow.log_metrics({"accuracy": accuracy, "loss": model.loss_}, step=epoch)
            print(f"epoch {epoch}: accuracy {accuracy:.4f}, loss {model.loss_:.4f}")


if __name__ == "__main__":
    main()
