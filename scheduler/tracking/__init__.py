"""MLflow: runs, metrics and artifacts."""
