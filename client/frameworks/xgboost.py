"""Callback for XGBoost."""

from __future__ import annotations

from typing import Any

from hypergauge.client.frameworks.boosting import Rounds
from hypergauge.client.frameworks.callback import record_of, remade
from hypergauge.client.frameworks.record import framework

__all__ = ["xgboost_callback"]

# Metrics that a training decreases. Others, such as `auc` or a user's own, are no losses.
_DECREASED = frozenset(
    [
        "rmse",
        "rmsle",
        "mae",
        "mape",
        "mphe",
        "logloss",
        "error",
        "merror",
        "mlogloss",
        "quantile",
        "poisson-nloglik",
        "gamma-nloglik",
        "cox-nloglik",
        "gamma-deviance",
        "tweedie-nloglik",
        "aft-nloglik",
    ]
)


def xgboost_callback(track: Any, every: int = 100) -> Any:
    """Return a callback for `train`, `cv` and the estimators."""
    base = framework("xgboost").callback.TrainingCallback
    record = record_of(track, "xgboost", every)
    return _kind(base, every)(Rounds(record) if record else None)


def _kind(base: type, every: int) -> Any:
    class Hypergauge(base):  # type: ignore[misc]
        """A callback whose hooks return what XGBoost expects of one that changes nothing."""

        def __init__(self, rounds: Rounds | None) -> None:
            super().__init__()
            self._rounds = rounds
            if rounds is not None:
                rounds.close_with(self)

        def before_training(self, model: Any) -> Any:
            if self._rounds is not None:
                self._rounds.begin()
            return model

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if self._rounds is not None:
                self._rounds.end_round(lambda: _losses(evals_log))
            return False

        def after_training(self, model: Any) -> Any:
            if self._rounds is not None:
                self._rounds.end()
            return model

        def __reduce__(self) -> Any:
            return remade, ("xgboost", {"every": every})

    return Hypergauge


def _losses(history: Any) -> dict[str, float]:
    """Return the newest losses by name: of data sets named after the training, and of the last other one."""
    found: dict[str, float] = {}
    for data, metrics in history.items():
        for metric, values in metrics.items():
            if values and metric.partition("@")[0] in _DECREASED:
                newest = values[-1]
                mean = newest[0] if isinstance(newest, tuple) else newest  # with `cv` also a deviation
                found["loss" if data.startswith("train") else "val_loss"] = float(mean)
    return found
