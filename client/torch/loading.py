"""Waits for data loaders, the epochs that they begin, and the samples that they give."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.utils import data
from torch.utils.data import dataloader
from torch.utils.data.distributed import DistributedSampler

from hypergauge.client.guard import suppress_own
from hypergauge.client.torch.patches import Patch

__all__ = ["LoaderHook"]

_NEXT = Patch(dataloader._BaseDataLoaderIter, "__next__")

# Types whose length is a plain number.
_PLAIN = (list, tuple, range, torch.Tensor)


class Loading(Protocol):
    """Listener to the batches that the thread takes from data loaders. Its methods must not raise."""

    def batch_asked(self, data_set: object, is_first: bool) -> None:
        """Note that a batch of a data set is asked for, and whether it is the first one of an iteration."""

    def batch_taken(self, seconds: float, samples: int | None) -> None:
        """Note how long a batch was waited for, and its samples."""

    def exhausted(self, data_set: object) -> None:
        """Note that a data set has no more batches."""


class LoaderHook:
    """Hook on each batch that the thread takes from a data loader."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._here = (os.getpid(), threading.get_ident())
        _NEXT.add(self._wrap)

    def close(self) -> None:
        """Remove the hook."""
        _NEXT.remove(self._wrap)

    def _wrap(self, take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        here, clock, loading = self._here, time.perf_counter, self._loading

        def replacement(batches: Any) -> Any:
            # Not in a worker, nor in a thread that loads ahead: nothing waits for it.
            if (os.getpid(), threading.get_ident()) != here:
                return take(batches)
            data_set, number = getattr(batches, "_dataset", None), getattr(batches, "_num_yielded", None)
            loading.batch_asked(data_set, number == 0)
            begin = clock()
            try:
                batch = take(batches)
            except StopIteration:
                loading.exhausted(data_set)
                raise
            loading.batch_taken(clock() - begin, _samples(batches, number))
            return batch

        return replacement


def _length(sampler: Any) -> int | None:
    """Return the length of a sampler whose methods are all PyTorch's own."""
    if type(sampler) in (data.SequentialSampler, data.RandomSampler):
        source = sampler.data_source
        source = source.indices if type(source) is data.Subset else source
        if type(source) not in (data.TensorDataset, *_PLAIN):
            return None
    elif type(sampler) is data.SubsetRandomSampler:
        if type(sampler.indices) not in _PLAIN:
            return None
    elif type(sampler) not in (data.WeightedRandomSampler, DistributedSampler):
        return None
    return len(sampler)


def _samples(batches: Any, number: int | None) -> int | None:
    """Return the samples of a batch by its number; ``None`` if the loader does not count them.

    That of a sampler or data set of others is a full one, as their methods may draw random numbers.
    """
    with suppress_own(Exception):  # loaders of others may have none of this
        sampler = vars(batches._index_sampler)
        size = sampler.get("batch_size")
        if not batches._auto_collation or type(size) is not int or number is None:
            return None
        length = _length(sampler.get("sampler"))
        if length is None:
            return size
        remaining = length - number * size
        return min(size, remaining) if remaining > 0 else size
    return None
