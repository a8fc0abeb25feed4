"""Watch of a model: the public entry, whatever the framework."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Protocol

from hypergauge.client.guard import Guard
from hypergauge.client.options import Amount, WatchOptions
from hypergauge.client.spans import Spans
from hypergauge.client.tensors import TensorFile
from hypergauge.client.training import Training

__all__ = ["Watch", "watch"]


class _Hooks(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


class Watch:
    """Handle of a watched model. `close` ends the watch; the end of the script does it too."""

    def __init__(self, hooks: _Hooks | None = None) -> None:
        self._hooks = hooks

    def close(self) -> None:
        """End the watch and write what is left. Idempotent."""
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.close()
            atexit.unregister(self.close)


def watch(
    track: Spans,
    training: Training,
    file: TensorFile,
    model: Any,
    optimizer: Any = None,
    loss: Any = None,
    *,
    every: int = 100,
    collections: Optional[Sequence[str]] = None,
    patterns: Optional[Mapping[str, str]] = None,
    save: Sequence[str] = (),
    quantiles: bool = False,
    samples: Amount = None,
    tokens: Amount = None,
    flops: Optional[float] = None,
    prefix: str = "",
    spans: bool = True,
    partial_losses: bool = False,
) -> Watch:
    """Begin to watch a model; see `Track.watch`."""
    path = os.environ.get("BENCH_TENSORS")
    if track.path is None or not path:
        return Watch()
    if type(every) is not int or every < 1:
        raise ValueError(f"every is {every!r}, but must be a number of steps, at least 1")
    guard = Guard("watch", file.problem)
    hooks: list[_Hooks] = []

    def start() -> None:
        sklearn = sys.modules.get("sklearn.base")
        if sklearn is not None and isinstance(model, sklearn.BaseEstimator):
            from hypergauge.client.frameworks.record import Record
            from hypergauge.client.frameworks.sklearn import EstimatorWatch

            estimator = EstimatorWatch(Record(track, training, file, "watch", every), model)
            estimator.start()
            hooks.append(estimator)
            return
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(model, torch.nn.Module):
            raise TypeError(f"a model of {type(model).__module__} cannot be watched; see the callbacks of frameworks")
        from hypergauge.client.torch.selection import COLLECTIONS, DEFAULT
        from hypergauge.client.torch.watch import TorchWatch

        chosen = DEFAULT if collections is None else tuple(collections)
        unknown = [name for name in chosen if name not in COLLECTIONS]
        if unknown:
            raise ValueError(f"there is no collection {unknown[0]!r}, but {', '.join(COLLECTIONS)}")
        options = WatchOptions(
            every,
            chosen,
            patterns or {},
            save,
            quantiles,
            samples,
            tokens,
            flops,
            prefix,
            spans,
            partial_losses,
            Path(path).with_suffix(""),
        )
        made = TorchWatch(track, training, file, model, optimizer, loss, options)
        made.start()
        hooks.append(made)

    guard(start)()
    if not hooks:
        return Watch()
    handle = Watch(hooks[0])
    atexit.register(handle.close)
    return handle
