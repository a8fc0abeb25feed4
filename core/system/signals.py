"""Handlers for signals that end a command, and for a closed terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["stop_event", "surviving_the_terminal", "suspended_together", "uninterrupted"]


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set from now on; call it in the main thread."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


@contextlib.contextmanager
def surviving_the_terminal() -> Iterator[None]:
    """Continue when the terminal is closed, and discard later output to it."""
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]  # `isatty` is false after the close

    def discard(*_: object) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in terminals:
            os.dup2(null, descriptor)
        os.close(null)

    before = signal.signal(signal.SIGHUP, discard)  # a handler, not SIG_IGN: every run would inherit that
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextlib.contextmanager
def suspended_together(send: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Let Ctrl-Z stop others as well: `send` takes SIGSTOP before this process stops, and SIGCONT when it continues.

    Only the main thread gets Ctrl-Z.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def suspend(*_: object) -> None:
        send(signal.SIGSTOP)  # not SIGTSTP: the kernel discards it in a session without a shell
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, suspend)
        send(signal.SIGCONT)

    before = signal.getsignal(signal.SIGTSTP)
    if before == signal.SIG_DFL:  # else a shell without job control has it ignored
        signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. Only the main thread gets interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)
