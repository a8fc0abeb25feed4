"""Handler of a signal that a script does not find; `hypergauge.scheduler.profilers.torch_trace` loads it in the script's process.

It needs only the standard library, of Python 3.8 or newer.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["HiddenHandler"]

# Longest time from a signal to its handler. A main thread that is stuck in C never comes to it.
_HANDLER_SECONDS = 2.0
_POLL_SECONDS = 0.1
_SA_RESETHAND = 0x80000000
# The functions of `signal` call those of this module.
_signal: Any = importlib.import_module("_signal")


class SignalAction(ctypes.Structure):
    """Structure ``sigaction`` of Linux."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    ]


class HiddenHandler:
    """Handler of a signal that the script leaves to the system. The script still finds the system's.

    The system gets the signal back as it arrives. It ends the process at a second signal, or two seconds after the first one
    if the main thread has not come to the handler.
    """

    def __init__(self, number: int, handler: Callable[[int, Any], None]) -> None:
        self._number, self._handler = number, handler
        self._signal, self._getsignal = _signal.signal, _signal.getsignal

    def install(self) -> None:
        """Install the handler, unless the script has one."""
        if sys.platform == "linux" and self._getsignal(self._number) == _signal.SIG_DFL:
            self._signal(self._number, self._handler)
            _signal.signal, _signal.getsignal = self._set, self._get
            action = SignalAction()
            process = ctypes.CDLL(None)
            process.sigaction(self._number, None, ctypes.byref(action))
            action.flags |= _SA_RESETHAND
            process.sigaction(self._number, ctypes.byref(action), None)
            threading.Thread(target=self._watch, name="torch-trace signal", daemon=True).start()

    def remove(self) -> None:
        """Remove the handler, unless the script has replaced it."""
        if _signal.signal == self._set:
            _signal.signal, _signal.getsignal = self._signal, self._getsignal
        if self._is_installed():
            self._signal(self._number, _signal.SIG_DFL)

    def _watch(self) -> None:
        action, process = SignalAction(), ctypes.CDLL(None)
        while self._is_installed():
            time.sleep(_POLL_SECONDS)
            process.sigaction(self._number, None, ctypes.byref(action))
            # The flag tells that the signal has done this, and not a library.
            if action.handler is None and action.flags & _SA_RESETHAND:
                time.sleep(_HANDLER_SECONDS)
                if self._is_installed():
                    os.kill(os.getpid(), self._number)

    def _is_installed(self) -> bool:
        return bool(self._getsignal(self._number) == self._handler)

    def _set(self, number: int, handler: Any) -> Any:
        return self._shown(self._signal(number, handler))

    def _get(self, number: int) -> Any:
        return self._shown(self._getsignal(number))

    def _shown(self, handler: Any) -> Any:
        return _signal.SIG_DFL if handler == self._handler else handler
