"""Training on handwritten digits, in the usual phases: load, train, evaluate, save.

It stops after some epochs, or after some seconds. The data are part of scikit-learn.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

LOAD_SECONDS = 3.0  # as long as reading a larger data set
SAVE_EVERY = 15


def main() -> None:
    """Train, and print the accuracy on images outside the training set."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--hidden", type=int, default=256, help="neurons in the hidden layer")
    arguments.add_argument("--copies", type=int, default=8, help="copies of each image, each with noise of its own")
    arguments.add_argument("--epochs", type=int, default=1_000_000)
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    options = arguments.parse_args()
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="train-") as folder, threadpool_limits(1):
        _train(options, end, Path(folder))


def _train(options: argparse.Namespace, end: float, folder: Path) -> None:
    digits = load_digits()
    images, unseen, labels, truth = train_test_split(digits.images / 16, digits.target, random_state=0)
    random = np.random.default_rng(0)
    inputs = np.concatenate([images + random.normal(0, 0.05, images.shape) for _ in range(options.copies)])
    np.save(folder / "inputs.npy", inputs)
    if options.seconds < float("inf"):
        time.sleep(LOAD_SECONDS)
    inputs = np.load(folder / "inputs.npy").reshape(-1, 64)
    targets = np.tile(labels, options.copies)
    model = MLPClassifier((options.hidden,), batch_size=64, random_state=0)
    began = time.monotonic()
    for epoch in range(options.epochs):
        order = random.permutation(len(inputs))
        model.partial_fit(inputs[order], targets[order], classes=range(10))
        accuracy = model.score(unseen.reshape(-1, 64), truth)
        if epoch % SAVE_EVERY == 0:
            (folder / "model.pickle").write_bytes(pickle.dumps(model))
        if time.monotonic() >= end:
            break
    print(f"epoch {epoch}: accuracy {accuracy:.4f} in {time.monotonic() - began:.3f} s")


if __name__ == "__main__":
    main()
