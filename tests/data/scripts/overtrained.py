"""Training whose validation loss rises from the fifth epoch on; it would go on for an hour."""

import time

import mlflow

for epoch in range(7200):
    mlflow.log_metric("train_loss", 2 / (1 + epoch), step=epoch)
    mlflow.log_metric("val_loss", 1 + 0.2 * abs(epoch - 5), step=epoch)
    time.sleep(0.5)
