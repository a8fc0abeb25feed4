"""Callback for LightGBM."""

from __future__ import annotations

from typing import Any

from hypergauge.client.frameworks.boosting import Rounds
from hypergauge.client.frameworks.callback import record_of, remade

__all__ = ["LightgbmCallback"]


class LightgbmCallback:
    """Callback for `train`, `cv` and the estimators. LightGBM calls it after each round."""

    before_iteration = False

    def __init__(self, track: Any, every: int = 100) -> None:
        self._every = every
        record = record_of(track, "lightgbm", every)
        self._rounds = Rounds(record) if record else None
        if self._rounds is not None:
            self._rounds.close_with(self)

    @property
    def order(self) -> int:
        """Position among the callbacks: before those that stop the training. LightGBM reads it as it begins."""
        if self._rounds is not None:
            self._rounds.begin()
        return 0

    def __call__(self, env: Any) -> None:
        """End a round."""
        if self._rounds is None:
            return
        self._rounds.end_round(lambda: _losses(env.evaluation_result_list), lambda: _samples(env.model))
        if env.iteration == env.end_iteration - 1:
            self._rounds.end()

    def __reduce__(self) -> Any:
        return remade, ("lightgbm", {"every": self._every})


def _losses(results: Any) -> dict[str, float]:
    """Return the newest losses by name: of the training's data, and of the last other data."""
    found: dict[str, float] = {}
    for data, metric, value, is_increased, *_ in results or ():
        if not is_increased:
            # With `cv` the data's name may be in that of the metric.
            of_training = f"{data} {metric}".startswith(("train", "cv_agg train"))
            found["loss" if of_training else "val_loss"] = float(value)
    return found


def _samples(model: Any) -> float:
    boosters = getattr(model, "boosters", None) or [model]  # those of `cv`
    return float(sum(booster.train_set.num_data() for booster in boosters))
