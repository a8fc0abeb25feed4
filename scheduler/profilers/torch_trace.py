"""Launcher of a script under PyTorch's profiler: ``python torch_trace.py TRACE SCRIPT [PARAMETERS…]``.

The trace has 20 optimizer steps from the fourth on, or 30 seconds of them. If a script has no optimizer two seconds
after it has imported PyTorch and used the GPU, the trace has the next 30 seconds. Chrome's ``about:tracing`` and
Perfetto can read the trace.

The launcher does not change the script's view: the script is ``__main__``, and imports PyTorch itself, since it may set
variables first. The profiler records only the script's own process, up to its next fork. It yields to a profiler of the
script's own. Errors of the profiler are logged and ignored, but those of the script's signal handlers, which Python may
call at any time, reach the script. The launcher runs in the run's interpreter, Python 3.8 or newer, and needs only the
standard library and two files of this package, see `hypergauge.scheduler.profilers.pytorch`.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import gzip
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
import types
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

FIRST_STEP, STEPS, SECONDS = 3, 20, 30.0
# Longest wait for the script to use the GPU. If the launcher used it first, the script could no longer choose its GPU.
_GPU_SECONDS = 10.0
_OPTIMIZER_SECONDS = 2.0
_POLL_SECONDS = 0.1
# The functions that start a profiler are found before the script can call them: PyTorch's import takes far longer.
_IMPORT_POLL_SECONDS = 0.02
# Longest wait of another thread's profiler for the end of the recording.
_YIELD_SECONDS = 5.0
# Every profiler of PyTorch is started by one of these functions.
_STARTS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
_LOG = "profiler.log"
_LEVEL = "KINETO_LOG_LEVEL"


def _module(path: Path) -> Any:
    """Return the module of a file of this package, which the run's interpreter may lack."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from hypergauge.client.guard import is_of_handler
    from hypergauge.scheduler.profilers.hidden_handler import HiddenHandler
else:
    _FOLDER = Path(__file__).parent
    is_of_handler = _module(_FOLDER.parents[1] / "client" / "guard.py").is_of_handler
    HiddenHandler = _module(_FOLDER / "hidden_handler.py").HiddenHandler


class Recorder:
    """Recorder of the trace: starts and stops PyTorch's profiler, and writes the trace.

    It records once per process, and never after a profiler of the script's own. If an operation spans the end of one
    recording and the begin of the next, it writes to freed memory of the first, which crashes Python later (PyTorch
    2.13).
    """

    def __init__(self, trace: Path) -> None:
        self._trace, self._pid = trace, os.getpid()
        self._profile: Any = None
        self._thread, self._began = 0, 0.0
        self._steps, self._over = 0, False
        self._starting = 0  # thread that starts the recording
        self._stopped = threading.Event()
        self._yielded = False
        self._termination = HiddenHandler(signal.SIGTERM, self._ended_from_outside)
        self._looking = MainThreadCall(lambda: self._guarded(self._look))
        self._raising: MainThreadCall | None = None

    def start(self) -> None:
        """Watch for the import of PyTorch in a background thread."""
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)
        threading.Thread(target=self._watch, name="torch-trace", daemon=True).start()

    def close(self) -> None:
        """Write the trace recorded so far, at the end of the script."""
        if self._is_mine():
            with suppress(Exception):  # of a signal handler: the script has ended, and its status stays
                self._guarded(self._end)
        elif not self._over and _is_imported("torch"):
            self._notify(f"there is no trace, since the script ended before its step {FIRST_STEP + 1}")
        self._over = True

    def _watch(self) -> None:
        while not _is_imported("torch.autograd.profiler"):
            time.sleep(_IMPORT_POLL_SECONDS)
        self._guarded(self._follow_profilers)
        while not _is_imported("torch"):
            time.sleep(_POLL_SECONDS)
        self._guarded(self._follow_steps)
        give_up = time.monotonic() + _GPU_SECONDS
        while not _gpu_is_settled() and time.monotonic() < give_up:
            time.sleep(_POLL_SECONDS)
        time.sleep(_OPTIMIZER_SECONDS)
        if not self._steps and not _has_optimizer():
            self._looking.add()
        while not self._over:
            time.sleep(_POLL_SECONDS)
            if self._profile is not None and self._is_late():
                self._looking.add()

    def _follow_profilers(self) -> None:
        followed: dict[Any, Callable[..., Any]] = {}
        modules = [sys.modules.get(f"torch.autograd{name}") for name in ("", ".profiler", ".profiler_legacy")]
        for module in (sys.modules["torch"]._C._autograd, *modules):
            for name in _STARTS:
                start = getattr(module, name, None)
                if start is not None:
                    followed.setdefault(start, self._yielding(start))
                    setattr(module, name, followed[start])

    def _yielding(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that starts a profiler, so that a profiler of the script's own ends the recording."""

        @functools.wraps(start)
        def yielding(*arguments: Any, **named: Any) -> Any:
            if not self._yielded and self._starting != threading.get_ident():
                self._yielded = True
                self._guarded(self._yield)
            return start(*arguments, **named)

        return yielding

    def _yield(self) -> None:
        if self._profile is None and not self._over:
            self._over = True
            self._notify("there is no trace, since the script uses PyTorch's profiler itself")
        elif self._is_mine():
            self._end()
            self._notify("the trace ends early, since the script uses PyTorch's profiler itself")
        elif self._profile is not None and not self._stopped.is_set() and os.getpid() == self._pid:
            self._began -= SECONDS
            self._looking.add()
            self._stopped.wait(_YIELD_SECONDS)
            self._notify("the trace ends early, since the script uses PyTorch's profiler itself")
        if self._profile is not None:
            _end_ranges()

    def _before_fork(self) -> None:
        """End the recording: a child would go on with it, without an end."""
        try:
            self._guarded(self._end_early)
        except BaseException as error:  # noqa: BLE001 - it is raised after the fork: Python drops what is raised here
            self._raising = MainThreadCall(functools.partial(_raise, error))
            threading.Timer(_POLL_SECONDS, self._raising.add).start()

    def _end_early(self) -> None:
        if self._is_mine():
            self._end()
            self._notify("the trace ends early, since the script forks a process")

    def _after_fork(self) -> None:
        """Let a child end as it would end without the recording."""
        self._over = True
        self._termination.remove()
        if self._profile is not None:
            _exit_without_destructors()

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
        self._starting = threading.get_ident()
        try:
            _start_quietly(profile)
            self._profile, self._thread, self._began = profile, threading.get_ident(), time.monotonic()
            if threading.current_thread() is threading.main_thread():
                self._termination.install()
        except BaseException:
            self._over = True
            self._termination.remove()
            _stop_profiler()
            raise
        finally:
            self._starting = 0

    def _end(self) -> None:
        self._over = True
        plain, packed = (self._trace.with_name(f".{name}") for name in (self._trace.stem, self._trace.name))
        try:
            self._termination.remove()
            self._profile.stop()
            self._stopped.set()
            # Uncompressed: PyTorch compresses by way of a temporary file, which an error would leave behind.
            self._profile.export_chrome_trace(str(plain))
            with plain.open("rb") as source, gzip.open(packed, "wb") as target:
                shutil.copyfileobj(source, target)
            packed.replace(self._trace)
        finally:  # also if a signal handler of the script has raised an error above
            self._termination.remove()
            _stop_profiler()
            self._stopped.set()
            for path in (plain, packed):
                with suppress(FileNotFoundError):
                    path.unlink()

    def _ended_from_outside(self, number: int, _: object) -> None:
        try:
            if self._is_mine():
                self._guarded(self._end)
        finally:
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
        except Exception as error:
            if is_of_handler(error):
                if self._over and not self._trace.exists():
                    self._notify("there is no trace, since a signal handler of the script raised an error")
                raise
            self._over = True
            self._notify(f"it gave up: {type(error).__name__}: {error}")

    def _notify(self, what: str) -> None:
        """Write to the log of the run's profilers, since the output is the script's."""
        try:
            with self._trace.with_name(_LOG).open("a") as log:
                log.write(f"PyTorch profiler: {what}\n")
        except OSError as error:
            if is_of_handler(error):
                raise


class MainThreadCall:
    """Call of a function between two instructions of the main thread, which records: a pending call of Python.

    Unlike a signal it is invisible. Its C function is ``PyObject_IsTrue``, so that what the function raises reaches the
    script: from a function of `ctypes` it would not.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def __bool__(self) -> bool:
        self._function()
        return False

    def add(self) -> None:
        """Have the main thread call the function."""
        python = ctypes.pythonapi
        python.Py_AddPendingCall(ctypes.cast(python.PyObject_IsTrue, ctypes.c_void_p), ctypes.py_object(self))


class _StepHooks(UserDict):  # type: ignore[type-arg]
    """PyTorch's dictionary of hooks after each step, with one more hook for the steps alone."""

    def __init__(self, hooks: Any, added: Callable[..., None]) -> None:
        super().__init__()
        self.data, self._added = hooks, added

    def values(self) -> Any:
        """Return a list, which no thread changes during an iteration."""
        return [*self.data.values(), self._added]


def _raise(error: BaseException) -> None:
    raise error


def _start_quietly(profile: Any) -> None:
    """Start a profiler whose library, Kineto, would write lines to the script's output.

    Kineto reads the variable from the process at its first start. The script and its children never find it.
    """
    with _set_in_process(_LEVEL, "99"):
        profile.start()


@contextmanager
def _set_in_process(name: str, value: str) -> Iterator[None]:
    """Set a variable of the process beside `os.environ`, unless that has it."""
    if name in os.environ:
        yield
        return
    process = ctypes.CDLL(None)
    process.setenv(name.encode(), value.encode(), 0)
    try:
        yield
    finally:
        process.unsetenv(name.encode())


def _stop_profiler() -> None:
    """Stop PyTorch's profiler if its own functions have not come to it. Those of the script may write lines again."""
    torch = sys.modules["torch"]
    if torch.autograd._profiler_enabled():
        torch.autograd._disable_profiler()
    restore = getattr(ctypes.CDLL(torch._C.__file__), "suppressLibkinetoLogMessages", None)
    if restore is not None:
        restore()


def _end_ranges() -> None:
    """End the ranges that began during a recording, before the next recording begins.

    Each then does nothing at its own end, where it would write to freed memory of the first recording.
    """
    torch = sys.modules["torch"]
    ended = torch.ops.profiler._record_function_exit
    for kind in _subclasses(torch.autograd.profiler.record_function):
        # Not `gc.get_objects`: while a list has a tuple that another thread still fills, that thread fails.
        for holder in gc.get_referrers(kind):
            if type(holder) is kind and holder.record is not None:
                getattr(ended, "_RecordFunction", ended)(holder.record)


def _exit_without_destructors() -> None:
    """Let this process, once it ends, flush its files and skip the destructors of C++.

    In a forked process that of PyTorch's profiler waits for a thread that is only in the parent.
    """
    if sys.platform == "linux":
        process = ctypes.CDLL(None)
        # The last one registered is called first. Both get the arguments that they expect.
        process.on_exit(process._exit, None)
        process.__cxa_atexit(process.fflush, None, None)


def _has_optimizer() -> bool:
    """Return whether there has been an optimizer: the first one of a class has PyTorch mark the class's ``step``."""
    return any(hasattr(kind.step, "hooked") for kind in _subclasses(sys.modules["torch"].optim.Optimizer))


def _subclasses(base: Any) -> list[Any]:
    """Return a class and all that inherit from it."""
    return [base, *(kind for child in base.__subclasses__() for kind in _subclasses(child))]


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
    with _set_in_process(_LEVEL, "99"):
        pass  # the first variable that is set moves the environment, which later on other threads may be reading
    recorder = Recorder(Path(trace))
    recorder.start()
    try:
        exec(code, module.__dict__)  # noqa: S102 - the user's own script
    finally:
        recorder.close()


if __name__ == "__main__":
    main()
