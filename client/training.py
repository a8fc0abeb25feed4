"""Phases, epochs and steps of a training as spans, for the hooks of frameworks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from hypergauge.client.spans import Amounts, Span, Spans

__all__ = ["Training"]

# Longest time that the lines of steps wait to be written together. A killed training loses as much.
_FLUSH_SECONDS = 0.5


class _Open:
    """Open span of a phase or an epoch, written at its start and at its end."""

    def __init__(self, track: Spans, parent: str, name: str, kind: str, number: int | None, start: float) -> None:
        self.id, self.name, self.number = track.new_id(), name, number
        self._track, self._parent, self._kind, self._start = track, parent, kind, start
        self._write("null")

    def end(self, now: float) -> None:
        self._write(repr(now))

    def _write(self, end: str) -> None:
        line = self._track.line(self.id, self._parent, self.name, self._kind, self.number, self._start, end)
        self._track.append(line.encode())


class Training:
    """Phases, epochs and steps of a training in one thread.

    A phase or an epoch lasts until the next one begins. A step begins where the last one ended, or where its phase began.
    It takes the waits for data and the amounts of work in `Spans.work`. Kinds of spans that the script writes itself are
    left to the script.

    Attributes
    ----------
    in_phase
        Name of the phase in progress.
    """

    def __init__(self, track: Spans, clock: Callable[[], float] = time.time) -> None:
        self._track, self._clock = track, clock
        self._work, self._kinds = track.work, track.kinds
        self.in_phase: str | None = None
        self._phase: _Open | None = None
        self._epoch: _Open | None = None
        self._pid = os.getpid()
        self._next = 0
        self._began = self._flushed = clock()
        # Parent, number, start, end and amounts of each step, which become lines when they are written.
        self._steps: list[tuple[str, int, float, float, Amounts]] = []

    @property
    def step(self) -> int:
        """Number of the step in progress, from 0."""
        return self._next

    @property
    def in_epoch(self) -> bool:
        """Whether an epoch is open."""
        return self._epoch is not None

    def phase(self, name: str | None) -> None:
        """Begin a phase such as ``train`` or ``evaluate``, unless it is in progress; ``None`` ends the current one."""
        if name == self.in_phase or self._is_not_ours("phase"):
            return
        now = self._clock()
        self.flush()
        if self._phase is not None:
            self._phase.end(now)
        self._phase = None if name is None else _Open(self._track, self._parent(), name, "phase", None, now)
        self.in_phase = name
        self._began = now

    def epoch(self, number: int | None) -> None:
        """Begin an epoch, which ends the phase in progress too; ``None`` ends the current one."""
        if self._is_not_ours("epoch"):
            return
        self.phase(None)
        now = self._clock()
        if self._epoch is not None:
            self._epoch.end(now)
        self._epoch = None
        if number is not None:
            self._epoch = _Open(self._track, self._parent(), f"epoch {number}", "epoch", number, now)

    def end_step(self, number: int | None = None) -> None:
        """End a step; its number is one more than that of the last one unless given."""
        number = self._next if number is None else number
        self._next = number + 1
        if self._kinds and self._is_of_script("step"):
            return
        now = self._clock()
        parent = self._phase.id if self._phase else self._parent()
        self._steps.append((parent, number, self._began, now, self._work.taken()))
        self._began = now
        if now - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Write a checkpoint as a phase ``checkpoint`` within the current one."""
        parent = self._phase.id if self._phase else self._parent()
        with Span(self._track, "checkpoint", "phase", None, parent):
            yield

    def flush(self) -> None:
        """Write the steps so far."""
        steps, self._steps, self._flushed = self._steps, [], self._clock()
        if steps and os.getpid() == self._pid:  # a forked worker has a copy of the steps
            self._track.append(self._track.step_lines(steps).encode())

    def close(self) -> None:
        """End what is open. Idempotent."""
        if os.getpid() == self._pid:
            self.epoch(None)
            self.phase(None)
            self.flush()

    def _parent(self) -> str:
        if self._epoch is not None:
            return self._epoch.id
        opened = self._track.open_spans()
        return opened[-1].id if opened else "null"

    def _is_not_ours(self, kind: str) -> bool:
        """Return whether the script writes such spans itself, or this is a forked worker."""
        return self._is_of_script(kind) or os.getpid() != self._pid

    def _is_of_script(self, kind: str) -> bool:
        """Return whether the script is within such a span of its own."""
        # Most scripts have no spans.
        return kind in self._kinds and any(opened.kind == kind for opened in self._track.open_spans())
