"""Spans of a run and their file."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from json.encoder import encode_basestring_ascii as _quoted
from types import TracebackType
from typing import Optional

from hypergauge.client.append_only import AppendOnlyFile
from hypergauge.client.guard import is_of_handler, suppress_own

__all__ = ["SPAN_KINDS", "Amounts", "Span", "Spans", "Work"]

SPAN_KINDS = ("phase", "epoch", "step", "span")


class _Open:
    """Open interval of a span. Every copy of the context sees that it has ended, in whatever thread or task that is."""

    __slots__ = ("id", "is_open", "kind", "parent", "start")

    def __init__(self, span_id: str, parent: str, kind: str) -> None:
        self.id, self.parent, self.kind = span_id, parent, kind
        self.is_open = True
        self.start = time.time()


class Span:
    """Named interval of time; a context manager. Spans within a thread or task of asyncio nest.

    It may end in another thread than it began in, as in a generator that a pool consumes.

    Parameters
    ----------
    parent
        Id of the parent as JSON; by default the innermost open span.
    """

    __slots__ = ("_kind", "_name", "_opened", "_parent", "_step", "_track")

    def __init__(self, track: Spans, name: str, kind: str, step: int | None, parent: str | None = None) -> None:
        self._track, self._name, self._kind, self._step, self._parent = track, name, kind, step, parent
        self._opened: list[_Open] = []  # several while a function with a shared span calls itself

    def __enter__(self) -> Span:
        track = self._track
        if track.path is None:
            return self
        outer = track.open_spans()
        parent = self._parent or (outer[-1].id if outer else "null")
        opened = _Open(track.new_id(), parent, self._kind)
        outer.append(opened)
        track.context.set(outer)
        self._opened.append(opened)
        track.kinds.add(self._kind)
        if self._kind in ("phase", "epoch"):  # few and long: written at the start too, in case the run crashes
            self._write(opened, "null")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            end = time.time()
            opened = self._opened.pop()
            opened.is_open = False
            self._write(opened, repr(end), Work.fields(self._track.work.taken()) if self._kind == "step" else "")

    def _write(self, opened: _Open, end: str, work: str = "") -> None:
        track = self._track
        try:
            line = track.line(opened.id, opened.parent, self._name, self._kind, self._step, opened.start, end, work)
        except Exception as error:
            if is_of_handler(error):
                raise
            track.gap(f"some spans: {type(error).__name__} in making a text of a name or number")
            return
        track.append(line.encode())


class _Thread(threading.local):
    """Name of a thread as JSON, which is slow to find."""

    def __init__(self) -> None:
        self.name = _quoted(threading.current_thread().name)


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

    Parameters
    ----------
    gap
        Receives what is not counted, and why.
    """

    __slots__ = ("_gap", "data_wait", "flops", "samples", "tokens")

    def __init__(self, gap: Callable[[str], None]) -> None:
        self._gap = gap
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
        """Add to what the step has so far; leave out what is no finite number. A tensor on a GPU is waited for."""
        if data_wait is not None:
            self.data_wait = self._sum("data_wait", self.data_wait, data_wait)
        if samples is not None:
            self.samples = self._sum("samples", self.samples, samples)
        if tokens is not None:
            self.tokens = self._sum("tokens", self.tokens, tokens)
        if flops is not None:
            self.flops = self._sum("flops", self.flops, flops)

    def _sum(self, name: str, total: float | None, amount: float) -> float | None:
        try:
            found = (total or 0.0) + float(amount)
            if math.isfinite(found):
                return found
            count = str(found)
        except Exception as error:
            if is_of_handler(error):
                raise
            count = f"of type {type(amount).__name__}"
        self._gap(f"some {name}: a count is {count}, not a finite number")
        return total

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

    Parameters
    ----------
    gap
        Receives what is not recorded, and why.

    Attributes
    ----------
    kinds
        Kinds of the spans that the script has begun so far.
    context
        Spans that were open as the last one in this thread or task began, the innermost last.
    append
        Appends lines to the file.
    """

    def __init__(self, path: str | None, gap: Callable[[str], None]) -> None:
        self.path = path
        self.gap = gap
        self.numbers = itertools.count(1)
        self.thread = _Thread()
        self.work = Work(gap)
        self.kinds: set[str] = set()
        self.context: ContextVar[Sequence[_Open]] = ContextVar("spans", default=())
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

    def open_spans(self) -> list[_Open]:
        """Return the open spans of this thread or task, the innermost last."""
        return [opened for opened in self.context.get() if opened.is_open]

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
            f'"step": {step if type(step) is int else self._number(kind, step)}, "start": {start!r}, '
            f'"end": {end}, "pid": {os.getpid()}, "thread": {self.thread.name}{more}}}\n'
        )

    def _number(self, kind: str, step: object) -> str:
        """Return a step of numpy, torch or another library as JSON."""
        if step is None:
            return "null"
        with suppress_own(Exception):  # of the script's object; the training goes on
            number = int(step)  # type: ignore[call-overload]
            if number == step:
                return str(number)
        self.gap(f"some numbers of {kind}s: one is of type {type(step).__name__}, not a whole number")
        return "null"

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
