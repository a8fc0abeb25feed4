"""Rounds of gradient boosting, each a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypergauge.client.frameworks.record import Record

__all__ = ["Rounds"]


class Rounds:
    """Phase of a boosted training and the steps in it. The methods never raise."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.begin = record.guard(self._begin)
        self.end_round = record.guard(self._end_round)
        self.end = record.guard(record.close)

    def close_with(self, callback: object) -> None:
        """End what is open when the framework drops the callback."""
        self._record.close_with(callback)

    def _begin(self) -> None:
        self._record.begin()
        self._record.phase("train")

    def _end_round(self, losses: Callable[[], Mapping[str, float]], samples: Callable[[], float] | None = None) -> None:
        """End a round.

        Parameters
        ----------
        losses
            Returns the losses ``loss`` and ``val_loss`` as far as they are known.
        samples
            Returns the number of samples that the round was trained on.
        """
        for name, loss in losses().items():
            self._record.loss(loss, name)
        if samples is not None:
            self._record.track.work.add(samples=samples())
        self._record.end_step()
