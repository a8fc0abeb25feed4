"""MPS daemon with its own folder, controlled by NVIDIA's ``nvidia-cuda-mps-control``."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.files import private
from hypergauge.core.pages import Page

__all__ = ["PROGRAM", "MpsDaemon", "program"]

PROGRAM = "nvidia-cuda-mps-control"
_START_SECONDS = 30.0
# `quit` waits for clients and the server. A provisioned daemon has no clients left when it is stopped.
_QUIT_SECONDS = 10.0
_POLL_SECONDS = 0.05


def program() -> str | None:
    """Return the path of the control program; ``None`` if it is not on ``PATH``."""
    return shutil.which(PROGRAM)


class MpsDaemon:
    """MPS daemon of one folder, running or not.

    Parameters
    ----------
    folder
        Folder of its pipes and logs. The daemon creates sockets in it, whose full paths must stay below 108 bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pipes, self._logs = folder / "pipe", folder / "log"

    def variables(self, percentage: int | None = None) -> dict[str, str]:
        """Return the environment variables of a client; `percentage` limits its share of the GPU's threads."""
        found = {"CUDA_MPS_PIPE_DIRECTORY": str(self._pipes), "CUDA_MPS_LOG_DIRECTORY": str(self._logs)}
        if percentage is not None:
            found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percentage)
        return found

    def start(self, gpu_uuids: Sequence[str]) -> None:
        """Create the folder, and start the daemon if the control program is on ``PATH``.

        Raises
        ------
        GpuUnavailable
            The daemon did not start; the message has its last output and the command that starts it as root.
        """
        for folder in (self.folder, self._pipes, self._logs):
            folder.mkdir(mode=0o700)
        if (control := program()) is None:
            return
        start_log = self._logs / "start.log"
        with private.opened(start_log, "wb") as output:  # a file, because the daemon would keep a pipe open
            try:
                done = subprocess.run(
                    [control, "-d"],
                    env=self._environment(gpu_uuids),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    timeout=_START_SECONDS,
                    check=False,
                )
                status = f"exit status {done.returncode}" if done.returncode else None
            except subprocess.TimeoutExpired:
                status = f"no answer for {_START_SECONDS:g} s"
        if status is None and self.running:
            return
        last = [line for file in (start_log, self._logs / "control.log") for line in _lines(file)][-1:]
        why = "".join(last) or status or "it ended at once"
        variables = {**self.variables(), "CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
        root = "" if os.geteuid() == 0 else f"; to see whether root may: sudo env {_shell(variables)} {PROGRAM} -d"
        raise GpuUnavailable(f"the MPS daemon did not start: {why}{root}", page=Page.MPS)

    @property
    def running(self) -> bool:
        """Return whether the daemon has a process."""
        return next(self._processes(), None) is not None

    @property
    def pids(self) -> set[int]:
        """PIDs of the control daemon and its servers."""
        return {process.pid for process in self._processes()}

    def stop(self, timeout: float = _QUIT_SECONDS) -> None:
        """Stop the daemon with ``quit``, else with signals, and remove the folder. Idempotent.

        Raises
        ------
        GpuUnavailable
            The daemon belongs to another user; the message has the command that stops it.
        """
        if self.running and (control := program()) is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [control],
                    env={**os.environ, **self.variables()},
                    input=b"quit\n",
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=timeout,
                    check=False,
                )
            self._await_end(timeout)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._send(process, number)
            self._await_end(timeout / 4)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, process: psutil.Process, number: signal.Signals) -> None:
        try:
            process.send_signal(number)
        except psutil.AccessDenied as error:
            raise GpuUnavailable(
                f"the MPS daemon in {self.folder} is another user's: "
                f"echo quit | sudo env {_shell(self.variables())} {PROGRAM}",
                page=Page.MPS,
            ) from error

    def _await_end(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _processes(self) -> Iterator[psutil.Process]:
        """Yield the daemon and its servers: NVIDIA's MPS programs with this folder in their environment."""
        wanted = str(self._pipes)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = any(Path(word).name.startswith("nvidia-cuda-mps-") for word in process.cmdline())
                if not ours or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if process.environ().get("CUDA_MPS_PIPE_DIRECTORY") == wanted:
                    yield process

    def _environment(self, gpu_uuids: Sequence[str]) -> dict[str, str]:
        # Without ``BENCH_*`` variables: a daemon started inside a run is not part of that run's process tree.
        base = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_MPS_", "BENCH_"))}
        return {**base, **self.variables(), "CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def _shell(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
