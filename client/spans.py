"""Spans of a run and their file."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as _quoted
from types import TracebackType
from typing import Optional

from hypergauge.client.append_only import AppendOnlyFile

__all__ = ["SPAN_KINDS", "Amounts", "Span", "Spans", "Work"]

SPAN_KINDS = ("phase", "epoch", "step", "span")


class Span:
    """Named interval of time; a context manager. Spans within a thread nest."""

    __slots__ = ("_id", "_kind", "_name", "_parent", "_start", "_step", "_track")

    def __init__(self, track: Spans, name: str, kind: str, step: int | None) -> None:
        self._track, self._name, self._kind, self._step = track, name, kind, step
        self._id = ""

    def __enter__(self) -> Span:
        track = self._track
        if track.path is None:
            return self
        thread = track.thread
        self._parent = thread.stack[-1] if thread.stack else "null"
        self._id = track.new_id()
        thread.stack.append(self._id)
        thread.kinds.append(self._kind)
        track.kinds.add(self._kind)
        self._start = time.time()
        if self._kind in ("phase", "epoch"):  # few and long: written at the start too, in case the run crashes
            self._write("null")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._id:
            end = time.time()
            self._track.thread.stack.pop()
            self._track.thread.kinds.pop()
            self._write(repr(end), Work.fields(self._track.work.taken()) if self._kind == "step" else "")

    def _write(self, end: str, work: str = "") -> None:
        track = self._track
        track.append(
            track.line(self._id, self._parent, self._name, self._kind, self._step, self._start, end, work).encode()
        )


class _Thread(threading.local):
    """State of a thread: the ids and kinds of its open spans, the innermost last, and its name; ids and name as JSON."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.kinds: list[str] = []
        self.name = _quoted(threading.current_thread().name)


def _plain(value: object) -> object:
    """Return a step of numpy or torch as a number, any other one as text."""
    try:
        return int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return str(value)


# Data wait, samples, tokens and floating-point operations.
Amounts = tuple[Optional[float], Optional[float], Optional[float], Optional[float]]
_AMOUNTS = ("data_wait", "samples", "tokens", "flops")


class Work:
    """Waits for data and amounts of work since the end of the last step; the step that ends next takes them.

    Attributes
    ----------
    data_wait
        Seconds that the training was blocked on the loader; ``None`` if nothing measures it.
    samples, tokens, flops
        Samples and tokens that the model was trained on, and floating-point operations of the model; ``None`` if unknown.
    """

    __slots__ = ("data_wait", "flops", "samples", "tokens")

    def __init__(self) -> None:
        self.data_wait: float | None = None
        self.samples: float | None = None
        self.tokens: float | None = None
        self.flops: float | None = None

    def add(
        self,
        *,
        data_wait: float | None = None,
        samples: float | None = None,
        tokens: float | None = None,
        flops: float | None = None,
    ) -> None:
        """Add to what the step has so far."""
        if data_wait is not None:
            self.data_wait = (self.data_wait or 0.0) + data_wait
        if samples is not None:
            self.samples = (self.samples or 0.0) + samples
        if tokens is not None:
            self.tokens = (self.tokens or 0.0) + tokens
        if flops is not None:
            self.flops = (self.flops or 0.0) + flops

    def taken(self) -> Amounts:
        """Return all, and start anew."""
        found = (self.data_wait, self.samples, self.tokens, self.flops)
        self.data_wait = self.samples = self.tokens = self.flops = None
        return found

    @staticmethod
    def fields(amounts: Amounts) -> str:
        """Return what was taken as further fields of a span's JSON object."""
        fields = ""
        for name, value in zip(_AMOUNTS, amounts):
            if value is not None:
                fields += f', "{name}": {value!r}'
        return fields


class Spans:
    """Writer of spans to the file in ``BENCH_SPANS``; without one it does nothing.

    One write appends a line, so that threads and forked workers can share the file.

    Attributes
    ----------
    kinds
        Kinds of the spans that the script has begun so far.
    append
        Appends lines to the file.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.numbers = itertools.count(1)
        self.thread = _Thread()
        self.work = Work()
        self.kinds: set[str] = set()
        self.append = AppendOnlyFile(path or os.devnull).append

    def __call__(self, name: str = "run", *, kind: str = "span", step: int | None = None) -> Span:
        """Return a span for a ``with`` statement; `kind` is one of phase, epoch, step and span."""
        if kind not in SPAN_KINDS:
            raise ValueError(f"kind is {kind!r}, but must be one of {', '.join(SPAN_KINDS)}")
        return Span(self, name, kind, step)

    def phase(self, name: str) -> Span:
        """Return a span for a phase of the run: loading, training, evaluation."""
        return Span(self, name, "phase", None)

    def epoch(self, number: int) -> Span:
        """Return a span for an epoch."""
        return Span(self, f"epoch {number}", "epoch", number)

    def step(self, number: int) -> Span:
        """Return a span for a training step."""
        return Span(self, "step", "step", number)

    def new_id(self) -> str:
        """Return an id for a span of this process, as JSON."""
        return f'"{os.getpid():x}-{next(self.numbers):x}"'

    def line(
        self, span_id: str, parent: str, name: str, kind: str, step: int | None, start: float, end: str, more: str = ""
    ) -> str:
        """Return the line of a span; ids, end and further fields are JSON already."""
        # JSON by hand for speed: a training has millions of spans, and only names need escapes.
        return (
            f'{{"id": {span_id}, "parent": {parent}, "name": {_quoted(str(name))}, "kind": "{kind}", '
            f'"step": {step if type(step) is int else json.dumps(step, default=_plain)}, "start": {start!r}, '
            f'"end": {end}, "pid": {os.getpid()}, "thread": {self.thread.name}{more}}}\n'
        )

    def step_lines(self, steps: Iterable[tuple[str, int, float, float, Amounts]]) -> str:
        """Return the lines of steps: of each its parent, number, start, end and amounts."""
        # As `line`, without looking up for each step what all of them share.
        pid = os.getpid()
        process = f'"pid": {pid}, "thread": {self.thread.name}'
        return "".join(
            f'{{"id": "{pid:x}-{next(self.numbers):x}", "parent": {parent}, "name": "step", "kind": "step", '
            f'"step": {number}, "start": {start!r}, "end": {end!r}, {process}{Work.fields(amounts)}}}\n'
            for parent, number, start, end, amounts in steps
        )
