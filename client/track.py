"""Client for training scripts: ``from hypergauge import track``.

    from hypergauge import track

    with track.phase("train"):
        for epoch in range(3):
            with track.epoch(epoch):
                for step, batch in enumerate(track.data(loader)):
                    with track.step(step):
                        ...
                        track.count(samples=len(batch))

Outside a run it does nothing. It needs only the standard library of Python 3.9: in a run, ``hypergauge`` on the ``PYTHONPATH``
holds this folder alone, whatever the environment has installed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from hypergauge.client.guard import suppress_own
from hypergauge.client.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypergauge.client.tensors import TensorFile
    from hypergauge.client.training import Training
    from hypergauge.client.watch import Watch

__all__ = ["Track", "track"]

T = TypeVar("T")


class Track(Spans):
    """Spans, steps by hooks, and tensors of a run; without ``BENCH_SPANS`` it does nothing."""

    def __init__(self, path: str | None) -> None:
        super().__init__(path, self._report)
        self._training: Training | None = None
        self._tensors: TensorFile | None = None

    @property
    def training(self) -> Training:
        """Phases, epochs and steps by hooks; one for all watched models."""
        if self._training is None:
            from hypergauge.client.training import Training

            self._training = Training(self)
        return self._training

    @property
    def tensors(self) -> TensorFile:
        """File of reductions of tensors."""
        if self._tensors is None:
            from hypergauge.client.tensors import TensorFile

            self._tensors = TensorFile(os.environ.get("BENCH_TENSORS", os.devnull))
        return self._tensors

    def _report(self, gap: str) -> None:
        """Report what is not recorded."""
        with suppress_own(Exception):  # such as of an import after a change of the root folder
            self.tensors.gap(gap)

    def count(self, *, samples: float | None = None, tokens: float | None = None, flops: float | None = None) -> None:
        """Count what the current step trained on, for its throughput. Calls within a step add up.

        A watched model counts all of this itself.

        Parameters
        ----------
        samples, tokens
            Samples and tokens of this process: numbers, also of numpy or torch. A tensor on a GPU is waited for.
        flops
            Floating-point operations of the model, forward and backward.
        """
        if self.path is not None:
            self.work.add(samples=samples, tokens=tokens, flops=flops)

    def data(self, items: Iterable[T]) -> Iterable[T]:
        """Return an iterable of the same items, such as a data loader's. The next step has the wait for each of them.

        Outside a run these are the items themselves.
        """
        if self.path is None:
            return items
        from hypergauge.client.data import Data

        return Data(items, self.work)

    def watch(self, model: Any, optimizer: Any = None, loss: Any = None, **options: Any) -> Watch:
        """Watch a model of PyTorch or scikit-learn: its steps, epochs and phases, its waits for data, and its tensors.

        One line after the model exists, the rest comes by hooks. Outside a run it does nothing. An error in it ends the
        watch, and never the training.

        Parameters
        ----------
        model
            Module, also one that is compiled or parallel, or estimator; of an estimator `every` is the one option.
        optimizer
            Optimizer whose steps are the training's; by default the first one that steps with parameters of the model.
        loss
            Module that computes the loss. It also shows the classes of labels and predictions. By default the loss is the
            tensor whose ``backward`` is called.
        options
            ``every=100``: steps from one watched step to the next. ``collections``, ``patterns``, ``quantiles``, ``save``:
            which tensors, and what of them. ``samples``, ``tokens``: of a forward pass, a number or a function of its
            arguments. ``flops``: floating-point operations for a sample, counted by default. ``prefix``: text before the
            names of tensors. See `hypergauge.client.options.WatchOptions`.

        Returns
        -------
        Watch
            Handle; its `close` ends the watch before the end of the script.

        Raises
        ------
        TypeError
            There is no such option.
        ValueError
            `every` is not a number of steps.
        """
        from hypergauge.client.watch import watch

        return watch(self, self.training, self.tensors, model, optimizer, loss, **options)

    def keras(self, **options: Any) -> Any:
        """Return a callback for Keras: ``model.fit(…, callbacks=[track.keras()])``."""
        from hypergauge.client.frameworks.keras import keras_callback

        return keras_callback(self, **options)

    def lightgbm(self, **options: Any) -> Any:
        """Return a callback for LightGBM: ``lightgbm.train(…, callbacks=[track.lightgbm()])``."""
        from hypergauge.client.frameworks.lightgbm import LightgbmCallback

        return LightgbmCallback(self, **options)

    def lightning(self, **options: Any) -> Any:
        """Return a callback for Lightning: ``Trainer(callbacks=[track.lightning()])``; options as of `watch`."""
        from hypergauge.client.frameworks.lightning import lightning_callback

        return lightning_callback(self, **options)

    def transformers(self, **options: Any) -> Any:
        """Return a callback for Transformers: ``Trainer(…, callbacks=[track.transformers()])``; options as of `watch`."""
        from hypergauge.client.frameworks.transformers import transformers_callback

        return transformers_callback(self, **options)

    def xgboost(self, **options: Any) -> Any:
        """Return a callback for XGBoost: ``xgboost.train(…, callbacks=[track.xgboost()])``."""
        from hypergauge.client.frameworks.xgboost import xgboost_callback

        return xgboost_callback(self, **options)


track = Track(os.environ.get("BENCH_SPANS"))
