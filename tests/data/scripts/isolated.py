"""A script without neighbours sees none of our packages but the client, and logs to MLflow."""

import contextlib
import importlib
import sys

import mlflow

from hypergauge import track

seen = []
for name in (
    "collector",
    "dashboards",
    "exporters",
    "insight",
    "scheduler",
    "sql",
    "hypergauge.core.config.settings",
    "hypergauge.cli",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
        seen.append(name)
with track("logging"):
    mlflow.log_metric("accuracy", 0.75, step=1)
print(f"python {sys.prefix}")
print(f"mlflow {mlflow.__version__}")
print(f"sees {seen}")
