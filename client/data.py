"""Data of a training, with the waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from hypergauge.client.spans import Work

__all__ = ["Data"]

T = TypeVar("T")


class Data(Generic[T]):
    """Iterable that measures how long each item is waited for; other attributes are those of the original.

    Parameters
    ----------
    items
        Data loader, list, generator, or any other iterable.
    work
        Receives the waits. A wait that `items` itself adds, as a watched data loader does, counts once.
    """

    def __init__(self, items: Iterable[T], work: Work) -> None:
        self._items, self._work = items, work
        self._iterator: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        items, work, clock = iter(self._items), self._work, time.perf_counter
        while True:
            before, since = work.data_wait, clock()
            try:
                item = next(items)
            except StopIteration:
                return
            if work.data_wait == before:
                work.add(data_wait=clock() - since)
            yield item

    def __next__(self) -> T:
        if self._iterator is None:
            self._iterator = iter(self)
        return next(self._iterator)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]  # type: ignore[index]

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._items)

    def __getattr__(self, name: str) -> object:
        if name == "_items":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._items, name)
