"""scikit-learn with MLflow's autologging and nothing else."""

import warnings

import mlflow
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore")
mlflow.sklearn.autolog(log_models=False, log_datasets=False)
LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
