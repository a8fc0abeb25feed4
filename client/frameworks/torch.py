"""Tensors of a framework that trains by PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergauge.client.frameworks.record import Record

__all__ = ["TorchTensors"]


class TorchTensors:
    """Watch of a PyTorch model whose framework reports phases, epochs and steps itself.

    Parameters
    ----------
    track
        The `Track` whose `watch` has the hooks: reductions, losses, waits for data, samples and tokens.
    options
        Options of `Track.watch`.
    """

    def __init__(self, track: Any, record: Record, options: Mapping[str, Any]) -> None:
        self._track, self._record, self._options = track, record, options
        self._watch: Any = None
        self._samples: float | None = None

    def start(self, model: Any, optimizer: Any, accumulates: bool) -> None:
        """Begin to watch a model.

        Parameters
        ----------
        accumulates
            Whether a step has several batches, each with its part of the loss.
        """
        self.close()
        self._record.begin(model)
        self._watch = self._track.watch(model, optimizer, spans=False, partial_losses=accumulates, **self._options)

    def begin_batch(self) -> None:
        """Begin a batch."""
        self._samples = self._track.work.samples

    def end_batch(self, batch: Any) -> None:
        """Count the samples of a batch that did not pass the model's `forward`, as Lightning allows."""
        if self._track.work.samples == self._samples:
            from hypergauge.client.options import WatchOptions
            from hypergauge.client.torch.work import amounts

            given = {name: self._options[name] for name in ("samples", "tokens") if name in self._options}
            samples, tokens = amounts((batch,), batch if isinstance(batch, Mapping) else {}, WatchOptions(**given))
            self._track.work.add(samples=samples, tokens=tokens)

    def close(self) -> None:
        """End the watch. Idempotent."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
