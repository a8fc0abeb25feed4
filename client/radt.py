"""Stand-in for the package ``radt``, laid beside the client for scripts that import it.

Where radT is installed they get it, told that their run is tracked, which it does not know of us, and closed when they end,
as radT's own runner does; else its figures would be lost. Elsewhere they get what such scripts use of it, done by MLflow.
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
    """A tracked stretch of a script: a context manager with all that MLflow has; untracked it does nothing."""

    def __enter__(self) -> RADTBenchmark:
        return self

    def __exit__(self, *_: object) -> None:
        shutdown()

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("mlflow"), name) if _is_tracked() else _do_nothing

    def log_metric(self, name: str, value: float, epoch: int = 0) -> None:
        """Log a figure."""
        log_metrics({name: value}, epoch)

    def log_metrics(self, metrics: Mapping[str, float], epoch: int = 0) -> None:
        """Log several figures."""
        log_metrics(metrics, epoch)


def log_metric(name: str, value: float, epoch: int = 0) -> None:
    """Log a figure."""
    log_metrics({name: value}, epoch)


def log_metrics(metrics: Mapping[str, float], epoch: int = 0) -> None:
    """Log several figures. They are delivered when this returns: MLflow's queue loses what it holds at exit."""
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
    """Return radT itself where it is installed: what is found when nobody looks into this folder."""
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
        # It ends its children at exit as soon as it is imported, and radT waits for ever for children that are gone. What was
        # registered last is done first.
        import multiprocessing.util  # noqa: F401

        atexit.register(_radt.shutdown)
