"""Script without any change for hypergauge: scikit-learn with MLflow's autologging."""

import argparse

import mlflow
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

arguments = argparse.ArgumentParser()
arguments.add_argument("--trees", type=int, default=200)
arguments.add_argument("--jobs", type=int, default=1)
options = arguments.parse_args()

mlflow.sklearn.autolog(log_models=False)
digits = load_digits()
seen, unseen, labels, truth = train_test_split(digits.data, digits.target, random_state=0)
model = RandomForestClassifier(options.trees, n_jobs=options.jobs, random_state=0).fit(seen, labels)
print(f"accuracy {model.score(unseen, truth):.4f}")
