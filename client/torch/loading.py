"""Waits for data loaders, and the epochs that they begin."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from hypergauge.client.torch.patches import Patch

__all__ = ["LoaderHook"]

_NEXT = Patch(dataloader._BaseDataLoaderIter, "__next__")


class LoaderHook:
    """Hook on each batch that the thread takes from a data loader.

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
        self._asked, self._waited, self._exhausted = asked, waited, exhausted
        self._here = (os.getpid(), threading.get_ident())
        _NEXT.add(self._wrap)

    def close(self) -> None:
        """Remove the hook."""
        _NEXT.remove(self._wrap)

    def _wrap(self, take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def replacement(batches: Any) -> Any:
            # Not in a worker, nor in a thread that loads ahead: nothing waits for it.
            if (os.getpid(), threading.get_ident()) != self._here:
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
