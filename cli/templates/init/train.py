"""Example of a training: least squares by gradient descent. Replace it with your own script."""

from __future__ import annotations

import argparse

import mlflow
import numpy as np
from hypergauge import track  # optional: phases, epochs and steps; does nothing outside of a run


def main() -> None:
    """Train, and log the loss to MLflow as usual."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--size", type=int, default=300)
    arguments.add_argument("--steps", type=int, default=60)
    options = arguments.parse_args()

    random = np.random.default_rng(0)
    matrix = random.normal(size=(20 * options.size, options.size))
    truth = random.normal(size=options.size)
    target = matrix @ truth
    weights = np.zeros(options.size)
    rate = 1.0 / np.linalg.norm(matrix, ord=2) ** 2
    for step in range(options.steps):
        with track.step(step):
            for _ in range(10):
                weights -= rate * matrix.T @ (matrix @ weights - target)
        loss = float(np.mean((matrix @ weights - target) ** 2))
        mlflow.log_metric("loss", loss, step=step)
        print(f"step {step}: loss {loss:.6f}")


if __name__ == "__main__":
    main()
