"""Waits for data loaders, and the epochs that they begin."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from hypergauge.client.torch.patches import Patch

__all__ = ["LoaderHook"]

_NEXT = Patch(dataloader._BaseDataLoaderIter, "__next__")


class LoaderHook:
    """Hook on each batch that the process takes from a data loader.

    Parameters
    ----------
    asked
        Called with the data set before a batch is taken, and with whether it is the first one of an iteration.
    waited
        Called with the seconds that this took.
    exhausted
        Called with the data set when it has no more batches.
    """

    def __init__(
        self,
        asked: Callable[[object, bool], None],
        waited: Callable[[float], None],
        exhausted: Callable[[object], None],
    ) -> None:
        self._asked, self._waited, self._exhausted, self._pid = asked, waited, exhausted, os.getpid()
        _NEXT.add(self._wrap)

    def close(self) -> None:
        """Remove the hook."""
        _NEXT.remove(self._wrap)

    def _wrap(self, take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def replacement(batches: Any) -> Any:
            if os.getpid() != self._pid:  # a loader within a worker
                return take(batches)
            data_set = getattr(batches, "_dataset", None)
            self._asked(data_set, getattr(batches, "_num_yielded", 1) == 0)
            begin = time.perf_counter()
            try:
                batch = take(batches)
            except StopIteration:
                self._exhausted(data_set)
                raise
            self._waited(time.perf_counter() - begin)
            return batch

        return replacement
