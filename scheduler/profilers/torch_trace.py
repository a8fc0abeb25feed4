"""Launcher of a script under PyTorch's profiler: ``python torch_trace.py TRACE SCRIPT [PARAMETERS…]``.

The trace has 20 optimizer steps from the fourth on, or 30 seconds of them. If a script has no optimizer two seconds
after it has imported PyTorch and used the GPU, the trace has the next 30 seconds. Chrome's ``about:tracing`` and
Perfetto can read the trace.

The launcher does not change the script's view: the script is ``__main__``, and imports PyTorch itself, since it may set
variables first. The profiler records only the script's own process. Errors of the profiler are printed and ignored. The
launcher runs in the run's interpreter, Python 3.8 or newer, and needs only the standard library.
"""

from __future__ import annotations

import _thread
import gc
import os
import signal
import sys
import threading
import time
import types
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIRST_STEP, STEPS, SECONDS = 3, 20, 30.0
# Longest wait for the script to use the GPU. If the launcher used it first, the script could no longer choose its GPU.
_GPU_SECONDS = 10.0
_OPTIMIZER_SECONDS = 2.0
_POLL_SECONDS = 0.1
# Signal number whose handler Python runs in the main thread on request of another thread; no process sends it. PyTorch
# records the thread that starts its profiler, so that must be the main thread.
_SIGNAL = signal.SIGURG


class Recorder:
    """Recorder of the trace: starts and stops PyTorch's profiler, and writes the trace.

    It records once per process. If an operation spans the end of one recording and the begin of the next, it writes to
    freed memory of the first, which crashes Python later (PyTorch 2.13).
    """

    def __init__(self, trace: Path) -> None:
        self._trace, self._pid = trace, os.getpid()
        self._profile: Any = None
        self._thread, self._began = 0, 0.0
        self._steps, self._over = 0, False

    def start(self) -> None:
        """Watch for the import of PyTorch in a background thread."""
        signal.signal(_SIGNAL, lambda *_: self._guarded(self._look))
        threading.Thread(target=self._watch, name="torch-trace", daemon=True).start()

    def close(self) -> None:
        """Write the trace recorded so far, at the end of the script."""
        if self._is_mine():
            self._guarded(self._end)
        elif not self._over and _is_imported("torch"):
            _notify(f"there is no trace, since the script ended before its step {FIRST_STEP + 1}")
        self._over = True

    def _watch(self) -> None:
        while not _is_imported("torch"):
            time.sleep(_POLL_SECONDS)
        self._guarded(self._follow_steps)
        give_up = time.monotonic() + _GPU_SECONDS
        while not _gpu_is_settled() and time.monotonic() < give_up:
            time.sleep(_POLL_SECONDS)
        time.sleep(_OPTIMIZER_SECONDS)
        if not self._steps and not _has_optimizer():
            _in_main_thread()
        while not self._over:
            time.sleep(_POLL_SECONDS)
            if self._profile is not None and self._is_late():
                _in_main_thread()

    def _follow_steps(self) -> None:
        from torch.optim import optimizer

        # This is another thread than that of the training, which may be iterating the hooks. So they never change.
        hooks = optimizer._global_optimizer_post_hooks
        optimizer._global_optimizer_post_hooks = _StepHooks(hooks, lambda *_: self._guarded(self._step))

    def _step(self) -> None:
        if os.getpid() != self._pid or self._over:
            return
        self._steps += 1
        if self._steps == FIRST_STEP:
            if self._profile is None:
                self._begin()
            self._began = time.monotonic()
        elif self._is_mine() and (self._steps >= FIRST_STEP + STEPS or self._is_late()):
            self._end()

    def _look(self) -> None:
        """Start the recording if no step has started it; end it after `SECONDS`."""
        if os.getpid() != self._pid or self._over:
            return
        if self._profile is None:
            self._begin()
        elif self._is_mine() and self._is_late():
            self._end()

    def _begin(self) -> None:
        import torch.profiler

        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        profile = torch.profiler.profile(activities=activities)
        profile.start()
        self._profile, self._thread, self._began = profile, threading.get_ident(), time.monotonic()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._ended_from_outside)

    def _end(self) -> None:
        self._over = True
        if signal.getsignal(signal.SIGTERM) == self._ended_from_outside:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._profile.stop()
        temporary = self._trace.with_name("." + self._trace.name)
        self._profile.export_chrome_trace(str(temporary))
        temporary.replace(self._trace)

    def _ended_from_outside(self, number: int, _: object) -> None:
        if self._is_mine():
            self._guarded(self._end)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _is_mine(self) -> bool:
        """Return whether the caller is in the process and thread that the profiler records."""
        if self._profile is None or self._over:
            return False
        return os.getpid() == self._pid and self._thread == threading.get_ident()

    def _is_late(self) -> bool:
        return time.monotonic() - self._began >= SECONDS

    def _guarded(self, do: Callable[..., None], *arguments: object) -> None:
        try:
            do(*arguments)
        except Exception as error:  # noqa: BLE001 - no error of the profiler may end the run
            self._over = True
            _notify(f"it gave up: {type(error).__name__}: {error}")


class _StepHooks(UserDict):  # type: ignore[type-arg]
    """PyTorch's dictionary of hooks after each step, with one more hook for the steps alone."""

    def __init__(self, hooks: Any, added: Callable[..., None]) -> None:
        super().__init__()
        self.data, self._added = hooks, added

    def values(self) -> Any:
        """Return a list, which no thread changes during an iteration."""
        return [*self.data.values(), self._added]


def _notify(what: str) -> None:
    sys.stderr.write(f"PyTorch profiler: {what}\n")


def _in_main_thread() -> None:
    if sys.version_info >= (3, 10):  # noqa: UP036 - older versions support only SIGINT here
        _thread.interrupt_main(_SIGNAL)


def _has_optimizer() -> bool:
    optimizer = sys.modules["torch"].optim.Optimizer
    # By type, because `__class__` of some objects has side effects.
    return any(issubclass(type(one), optimizer) for one in gc.get_objects())


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _gpu_is_settled() -> bool:
    """Return whether PyTorch has no GPU support, or already uses the GPU."""
    torch = sys.modules["torch"]
    return (torch.version.cuda is None and torch.version.hip is None) or torch.cuda.is_initialized()


def main() -> None:
    """Run the script as ``python SCRIPT`` does."""
    trace, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(script).absolute().parent)
    code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=script, __cached__=None, __builtins__=__builtins__)
    # Kept in `sys.modules` to the end, so that the script's exit handlers still find its names.
    sys.modules["__main__"] = module
    recorder = Recorder(Path(trace))
    recorder.start()
    try:
        exec(code, module.__dict__)  # noqa: S102 - the user's own script
    finally:
        recorder.close()


if __name__ == "__main__":
    main()
