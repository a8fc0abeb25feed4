"""Writer of batches of reductions, so that no step waits for a device."""

from __future__ import annotations

import queue
import threading

from hypergauge.client.guard import is_of_handler
from hypergauge.client.tensors import TensorFile
from hypergauge.client.torch.batch import Batch

__all__ = ["BatchWriter"]


class BatchWriter:
    """Queue of batches whose values are on their way from the device, and the thread that writes them.

    A batch from the CPU has arrived at once and is written at once. The training would wait as long for the interpreter's lock,
    which the thread takes, and longer where it has all cores busy.

    Attributes
    ----------
    pending
        Batches that have not arrived, the oldest first.
    """

    def __init__(self, file: TensorFile) -> None:
        self._file = file
        self.pending: list[Batch] = []
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, batch: Batch) -> None:
        """Begin the transfers of a batch."""
        if not batch:
            return
        batch.transfer()
        if batch.is_here and not self.pending and self._thread is None:
            self._write(batch)
        else:
            self.pending.append(batch)

    def poll(self) -> None:
        """Give the thread what has arrived, in order."""
        while self.pending and self.pending[0].arrived:
            self._put(self.pending.pop(0))

    def close(self) -> None:
        """Write what is left, and wait for it. Idempotent."""
        for batch in self.pending:
            self._put(batch)
        self.pending = []
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _put(self, batch: Batch) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hypergauge tensors", daemon=True)
            self._thread.start()
        self._queue.put(batch)

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            self._write(batch)

    def _write(self, batch: Batch) -> None:
        try:
            batch.write(self._file)
        except Exception as error:
            if is_of_handler(error):
                raise
            self._file.problem(f"tensors of a step are lost: {type(error).__name__}: {error}")
