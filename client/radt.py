"""Replacement for the package ``radt``, placed beside the client for scripts that import it.

Where radT is installed, scripts get radT itself. This module then marks the run as tracked and closes radT at exit, as
radT's runner does; otherwise its metrics would be lost. Elsewhere MLflow provides the functions that such scripts use.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

__all__ = ["RADTBenchmark", "log_metric", "log_metrics", "run", "shutdown"]


class RADTBenchmark:
    """Tracked interval of a script: a context manager with MLflow's functions. Untracked it does nothing."""

    def __enter__(self) -> RADTBenchmark:
        return self

    def __exit__(self, *_: object) -> None:
        shutdown()

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("mlflow"), name) if _is_tracked() else _do_nothing

    def log_metric(self, name: str, value: float, epoch: int = 0) -> None:
        """Log a metric."""
        log_metrics({name: value}, epoch)

    def log_metrics(self, metrics: Mapping[str, float], epoch: int = 0) -> None:
        """Log several metrics."""
        log_metrics(metrics, epoch)


def log_metric(name: str, value: float, epoch: int = 0) -> None:
    """Log a metric."""
    log_metrics({name: value}, epoch)


def log_metrics(metrics: Mapping[str, float], epoch: int = 0) -> None:
    """Log several metrics synchronously, since MLflow's queue loses its content at exit."""
    if _is_tracked():
        import mlflow

        mlflow.log_metrics({name: float(value) for name, value in metrics.items()}, step=int(epoch))


def shutdown() -> None:
    """Close the run."""
    if _is_tracked() and (mlflow := sys.modules.get("mlflow")):
        mlflow.end_run()


def _is_tracked() -> bool:
    return "RADT_PRESENT" in os.environ


def _do_nothing(*_: object, **__: object) -> None:
    pass


def _installed() -> ModuleType | None:
    """Return radT itself where it is installed, imported without this folder on the path."""
    here, path, own = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.path[:], sys.modules.pop("radt")  # noqa: PTH100, PTH120 - a bare interpreter's start
    sys.path[:] = [folder for folder in path if os.path.abspath(folder) != here]  # noqa: PTH100
    try:
        return importlib.import_module("radt")
    except ModuleNotFoundError as error:
        if error.name != "radt":
            raise
        sys.modules["radt"] = own
        return None
    finally:
        sys.path[:] = path


if __name__ == "radt":
    if "MLFLOW_TRACKING_URI" in os.environ:
        os.environ.setdefault("RADT_PRESENT", "True")
    if (_radt := _installed()) is None:
        run = sys.modules["radt.run"] = sys.modules[__name__]
    elif hasattr(_radt, "shutdown"):
        # This import registers the end of child processes at exit, and radT would wait for ever for ended ones. The last
        # registered handler runs first.
        import multiprocessing.util  # noqa: F401

        atexit.register(_radt.shutdown)
