"""Training of a named model on a named data set, called by an entry point of bench.toml for each row."""

import argparse

import mlflow
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

DATA = {"digits": load_digits, "cancer": load_breast_cancer}

arguments = argparse.ArgumentParser()
arguments.add_argument("--model", choices=["forest", "logistic"], required=True)
arguments.add_argument("--data", choices=DATA, required=True)
arguments.add_argument("--trees", type=int, default=200)
options = arguments.parse_args()

data = DATA[options.data]()
seen, unseen, labels, truth = train_test_split(data.data, data.target, random_state=0)
models = {
    "forest": RandomForestClassifier(options.trees, random_state=0),
    "logistic": LogisticRegression(max_iter=10_000, random_state=0),
}
model = models[options.model].fit(seen, labels)
mlflow.log_metric("accuracy", model.score(unseen, truth))
