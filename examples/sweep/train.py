"""Training of a small network on digits, with the parameters of a sweep."""

import argparse

import mlflow
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int, default=10)
arguments.add_argument("--hidden", type=int, default=64)
arguments.add_argument("--lr", type=float, default=1e-3)
arguments.add_argument("--solver", choices=["adam", "sgd"], default="adam")
options = arguments.parse_args()

digits = load_digits()
seen, unseen, labels, truth = train_test_split(digits.data / 16, digits.target, random_state=0)
model = MLPClassifier(options.hidden, solver=options.solver, learning_rate_init=options.lr, random_state=0)
for epoch in range(options.epochs):
    model.partial_fit(seen, labels, classes=range(10))
    mlflow.log_metric("loss", model.loss_, step=epoch)
    mlflow.log_metric("accuracy", model.score(unseen, truth), step=epoch)
print(f"accuracy {model.score(unseen, truth):.4f}")
