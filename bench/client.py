"""The client for training scripts: ``from bench import track``.

    from bench import track

    with track.phase("train"):
        for epoch in range(3):
            with track.epoch(epoch):
                for step, batch in enumerate(loader):
                    with track.step(step):
                        ...

Outside a run it does nothing. It needs only the standard library: a run finds this one file, alone, as ``bench.py`` on
its ``PYTHONPATH``, whatever its environment has or has not installed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from types import TracebackType

__all__ = ["SPAN_KINDS", "Span", "Track", "track"]

SPAN_KINDS = ("phase", "epoch", "step", "span")


class Span:
    """A stretch of time with a name; a context manager. Spans within a thread nest."""

    __slots__ = ("_id", "_kind", "_name", "_parent", "_start", "_step", "_track")

    def __init__(self, track: Track, name: str, kind: str, step: int | None) -> None:
        self._track, self._name, self._kind, self._step = track, name, kind, step
        self._id = self._parent = ""
        self._start = 0.0

    def __enter__(self) -> Span:
        track = self._track
        if track.path is None:
            return self
        stack = track.stack()
        self._parent = stack[-1] if stack else ""
        self._id = f"{os.getpid():x}-{next(track.numbers):x}"
        stack.append(self._id)
        self._start = time.time()
        if self._kind in ("phase", "epoch"):  # few and long: worth a line already now, should the run crash in it
            self._write(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._track.path is not None and self._id:
            end = time.time()
            self._track.stack().pop()
            self._write(end)

    def _write(self, end: float | None) -> None:
        line = json.dumps(
            {
                "id": self._id,
                "parent": self._parent or None,
                "name": self._name,
                "kind": self._kind,
                "step": self._step,
                "start": self._start,
                "end": end,
                "pid": os.getpid(),
                "thread": threading.current_thread().name,
            },
            default=_plain,
        )
        self._track.append(line.encode() + b"\n")


def _plain(value: object) -> object:
    """Return what JSON can say of a step that is no int: numpy's and torch's are numbers all the same."""
    try:
        return int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return str(value)


class Track:
    """Where spans go: the file named by ``BENCH_SPANS``, or nowhere.

    A line is appended by one write, so that threads and forked workers can share the file.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.numbers = itertools.count(1)
        self._local = threading.local()
        self._file: int | None = None

    def __call__(self, name: str = "run", *, kind: str = "span", step: int | None = None) -> Span:
        """Return a span, to be entered with ``with``; `kind` is one of phase, epoch, step and span."""
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

    def stack(self) -> list[str]:
        """Return the ids of the spans that are open in this thread, the innermost last."""
        try:
            stack: list[str] = self._local.stack
        except AttributeError:
            stack = self._local.stack = []
        return stack

    def append(self, line: bytes) -> None:
        """Append one line; a full disk must not end a training, so it is dropped then."""
        with contextlib.suppress(OSError):
            if self._file is None:
                assert self.path is not None
                self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(self._file, line)


track = Track(os.environ.get("BENCH_SPANS"))
