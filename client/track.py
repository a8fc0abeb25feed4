"""Client for training scripts: ``from hypergauge import track``.

    from hypergauge import track

    with track.phase("train"):
        for epoch in range(3):
            with track.epoch(epoch):
                for step, batch in enumerate(loader):
                    with track.step(step):
                        ...

Outside a run it does nothing. It needs only the standard library: in a run this file is ``hypergauge.py`` on the
``PYTHONPATH``, whatever the environment has installed.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from json.encoder import encode_basestring_ascii as _quoted
from types import TracebackType

__all__ = ["SPAN_KINDS", "Span", "Track", "track"]

SPAN_KINDS = ("phase", "epoch", "step", "span")


class Span:
    """Named interval of time; a context manager. Spans within a thread nest."""

    __slots__ = ("_id", "_kind", "_name", "_parent", "_start", "_step", "_track")

    def __init__(self, track: Track, name: str, kind: str, step: int | None) -> None:
        self._track, self._name, self._kind, self._step = track, name, kind, step
        self._id = ""

    def __enter__(self) -> Span:
        track = self._track
        if track.path is None:
            return self
        stack = track.thread.stack
        self._parent = stack[-1] if stack else "null"
        self._id = f'"{os.getpid():x}-{next(track.numbers):x}"'
        stack.append(self._id)
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
            self._write(repr(end))

    def _write(self, end: str) -> None:
        track, step = self._track, self._step
        # JSON by hand for speed: a training has millions of spans, and only names need escapes.
        track.append(
            f'{{"id": {self._id}, "parent": {self._parent}, "name": {_quoted(str(self._name))}, "kind": "{self._kind}", '
            f'"step": {step if type(step) is int else json.dumps(step, default=_plain)}, "start": {self._start!r}, '
            f'"end": {end}, "pid": {os.getpid()}, "thread": {track.thread.name}}}\n'.encode()
        )


class _Thread(threading.local):
    """State of a thread: the ids of its open spans, the innermost last, and its name; both as JSON."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.name = _quoted(threading.current_thread().name)


def _plain(value: object) -> object:
    """Return a step of numpy or torch as a number, any other one as text."""
    try:
        return int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return str(value)


class Track:
    """Writer of spans to the file in ``BENCH_SPANS``; without one it does nothing.

    One write appends a line, so that threads and forked workers can share the file.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.numbers = itertools.count(1)
        self.thread = _Thread()
        self._file: int | None = None

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

    def append(self, line: bytes) -> None:
        """Append one line. On a full disk it is dropped, so that the training continues."""
        try:
            if self._file is None:
                assert self.path is not None
                self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(self._file, line)
        except OSError:
            return


track = Track(os.environ.get("BENCH_SPANS"))
