"""A script that chooses its experiment itself, and opens runs as MLflow's documentation does."""

import mlflow

mlflow.set_experiment("my own experiment")
with mlflow.start_run(run_name="mine") as run:
    mlflow.log_param("depth", 3)
    for step in range(3):
        mlflow.log_metric("loss", 1 / (1 + step), step=step)
    with mlflow.start_run(nested=True):
        mlflow.log_metric("candidate", 1.0)
with mlflow.start_run():
    mlflow.log_metric("test_accuracy", 0.5)
print(run.info.run_id)
