"""Supervisor of one run: ``python -m hypergauge.scheduler.supervisor.supervisor RUN_FOLDER``.

The scheduler starts the supervisor, which outlives it. The scheduler writes to the supervisor's standard input: one
line of JSON (an `Order`), then ``go`` with the run's start, once the placement is in the database. Without ``go`` the
supervisor runs nothing. The supervisor writes ``ready`` to its standard output, and ``ended`` when the run has ended.

The supervisor writes the run's end to its folder first, then to the database, and retries for up to 24 hours. If the
order requires it, or if the scheduler has died, it also delivers output, spans and software metrics.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, Popen

from hypergauge.core.errors import BenchError
from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.core.services import Stack
from hypergauge.core.system.backoff import pauses
from hypergauge.core.system.polling import readable
from hypergauge.core.system.processes import identity, signal_run
from hypergauge.scheduler import profilers
from hypergauge.scheduler.supervision import INTERRUPTED, ON_REQUEST, end_container_of
from hypergauge.scheduler.supervisor.lease import Lease
from hypergauge.scheduler.supervisor.limits import Memory, own_peak
from hypergauge.scheduler.supervisor.order import Order
from hypergauge.scheduler.supervisor.output_limit import OutputLimit
from hypergauge.scheduler.supervisor.reasons import CommandExit, exit_code, failure, last_lines, outlived
from hypergauge.scheduler.supervisor.run_clock import RunClock
from hypergauge.scheduler.tracking.spans import SpanWatch
from hypergauge.scheduler.tracking.tensors import TensorWatch
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

_PR_SET_CHILD_SUBREAPER = 36
# Wait for a late response of MLflow to the creation of the run.
_CREATION_SECONDS = 5.0
# Longest wait for the collector, and interval of the checks.
_SETTLE_SECONDS, _SETTLE_LOOK_SECONDS = 10.0, 0.2
# Longest time of retries to write the run's end to its folder, and to the database.
_RETRY_SECONDS = 24 * 3600.0
# Workers and helpers of a command end within this time; what lives longer has outlived it.
_LEFT_OVER_SECONDS = 0.5


class Supervisor:
    """Supervisor of one command and of all processes that it starts, until their end."""

    def __init__(self, folder: RunFolder, order: Order) -> None:
        self.folder, self.order = folder, order
        self.database = Database(order.load_settings(), starts=False)
        self._stop_requested = self._interrupted = False
        self._interrupts = 0  # not yet passed on
        self._inherited_rss = 0  # KiB
        self._wakeup, wakeup_writer = socket.socketpair()
        self._wakeup.setblocking(False)
        wakeup_writer.setblocking(False)
        self._wakeup_writer = wakeup_writer
        signal.set_wakeup_fd(wakeup_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _request_stop(self, *_: object) -> None:
        self._stop_requested = True

    def _take_interrupt(self, *_: object) -> None:
        self._interrupted = True
        self._interrupts += 1

    def run(self, started_at: float) -> RunEnd:
        """Run the command; return its end."""
        # Not earlier: a signal before the release only ends the supervisor.
        signal.signal(signal.SIGTERM, self._request_stop)
        signal.signal(signal.SIGINT, self._take_interrupt)
        run_id, clock = self.folder.run_id, RunClock(started_at)
        memory = Memory.read()
        around = profilers.around(self.order.profilers) if self.order.profilers else ""
        path = self.folder.profiler_log if around else self.folder.output  # the relay writes the command's output
        output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The output goes directly to its file, so a killed supervisor or run loses nothing.
            process = Popen(
                self.order.words,
                cwd=self.order.directory,
                env={**self.order.environment, "BENCH_RUN_ID": run_id, **({profilers.MARK: around} if around else {})},
                stdin=DEVNULL if self.order.stdin is None else self.order.stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            problem = f"cannot start {self.order.words[0]}: {error.strerror}"
            # As shells do.
            code = 127 if error.errno == errno.ENOENT else 126
            return self._end(started_at, clock.now(), "failed", code, problem)
        finally:
            os.close(output)
            if self.order.stdin is not None:  # its writer notices when the command closes it
                os.close(self.order.stdin)
        self._inherited_rss = own_peak()
        state = SupervisorState(os.getpid(), identity(os.getpid()) or 0.0, process.pid, started_at)
        with contextlib.suppress(OSError):  # a full disk: `main` has already written the supervisor's PID
            self.folder.write_state(state)
        lease = Lease(self.database, run_id, process.pid)
        lease.start()
        limit = OutputLimit(self.folder.output, self.database.settings.output_limit)
        limit.start()
        spans = SpanWatch(self.database, self.folder)
        spans.start()
        tensors = TensorWatch(self.database, self.folder)
        tensors.start()
        command = profilers.ProfiledCommand(process, self.folder, around)
        status, ended = self._watch(command, started_at, clock)
        left_over = command.left_over(_LEFT_OVER_SECONDS) if status in ("finished", "failed") else []
        after = outlived(left_over)
        command.end(self.database.settings.grace)
        lease.end()
        end_container_of(self.folder)
        _reap_all()
        limit.end()
        spans.end()
        tensors.end()
        reasons = filter(None, (self._reason(status, started_at, ended, memory), after))
        ended_at = clock.at(ended.ended_at)
        return self._end(started_at, ended_at, status, exit_code(ended.returncode), "; ".join(reasons) or None)

    def _watch(
        self, command: profilers.ProfiledCommand, started_at: float, clock: RunClock
    ) -> tuple[str, profilers.CommandEnd]:
        """Wait for the command, and end it at the deadline or on request; return status and exit."""
        status: str | None = None
        deadline, _ = self.order.deadline(started_at)
        watched = [self._wakeup.fileno(), sys.stdin.fileno()]
        while True:
            if (ended := command.ended()) is not None:
                return status or self._status(ended), ended
            _reap_orphans(command.process.pid)
            if status is None and (self._stop_requested or clock.now() >= deadline):
                status = "stopped" if self._stop_requested else "timeout"
                command.end(self.database.settings.grace)
                continue
            while self._interrupts:
                self._interrupts -= 1
                command.interrupt()
            readable(watched, min(command.pause, max(deadline - clock.now(), 0.01)))
            with contextlib.suppress(BlockingIOError):
                self._wakeup.recv(4096)
            if len(watched) > 1 and _input_ended():
                watched.pop()
                self._continue()

    def _continue(self) -> None:
        """Continue a run that Ctrl-Z has stopped, and whose `bench run` has died meanwhile."""
        if self.folder.suspended.exists():
            signal_run(self.folder.run_id, signal.SIGCONT)

    def _status(self, ended: profilers.CommandEnd) -> str:
        """Return the status of a command that ended before its supervisor ended it."""
        if self._interrupted:
            return "stopped"
        if ended.returncode == 0:
            return "finished"
        # A scheduler that was interrupted twice asks the supervisor first, and then kills the run itself.
        requested = self._stop_requested or self.folder.stop_reason() is not None
        return "stopped" if requested and ended.returncode < 0 else "failed"

    def _end(
        self, started_at: float, ended_at: float, status: str, exit_code: int | None, reason: str | None
    ) -> RunEnd:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        end = RunEnd(
            status=status,
            started_at=started_at,
            ended_at=max(ended_at, started_at),
            exit_code=exit_code,
            reason=reason,
            cpu_seconds=used.ru_utime + used.ru_stime,
            read_bytes=used.ru_inblock * 512,
            written_bytes=used.ru_oublock * 512,
            max_rss_bytes=self._peak_bytes(),
        )
        for pause in pauses(0.5, 30.0, within=_RETRY_SECONDS):
            with contextlib.suppress(OSError):  # a full disk, perhaps filled by the run
                self.folder.write_end(end)
                break
            time.sleep(pause)
        with contextlib.suppress(OSError):  # the scheduler has died
            os.write(sys.stdout.fileno(), b"ended\n")
        return end

    def _reason(self, status: str, started_at: float, ended: profilers.CommandEnd, memory: Memory) -> str | None:
        if status == "stopped":
            return self.folder.stop_reason() or (INTERRUPTED if self._interrupted else ON_REQUEST)
        if status == "timeout":
            return self.order.deadline(started_at)[1]
        why = failure(CommandExit(ended.returncode, last_lines(ended.log), memory, Memory.read(), self._peak_bytes()))
        return f"{ended.lost_by} ended before its command: {why}" if ended.lost_by else why

    def _peak_bytes(self) -> int:
        """Return the peak memory of the run's largest process; 0 if unknown.

        On `exec` the kernel passes the caller's peak on to the new program, so a peak up to the supervisor's is unknown.
        """
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return peak * 1024 if peak > self._inherited_rss else 0

    def record(self, end: RunEnd) -> None:
        """Write the end to the database; retry while the database is away or refuses it."""
        with contextlib.closing(Session(self.database, timeout=0)) as session:
            for pause in pauses(0.5, 30.0, within=_RETRY_SECONDS):
                with contextlib.suppress(BenchError):
                    session(runs.end_run, self.folder.run_id, end)
                    return
                time.sleep(pause)


def main(folder: RunFolder) -> None:
    """Supervise the run of `folder`."""
    if not (line := _read_line(sys.stdin.fileno())):
        return  # the scheduler has died or cancelled the run
    order = Order.decode(line)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor(folder, order)
    folder.write_state(SupervisorState(os.getpid(), identity(os.getpid()) or 0.0))
    with contextlib.ExitStack() as held:
        supervisor.database.hold()
        held.callback(supervisor.database.close)
        # If the scheduler has died, the last supervisor stops the services.
        stack = Stack(supervisor.database.settings)
        stack.hold(lambda: None)
        held.callback(stack.release)
        os.write(sys.stdout.fileno(), b"ready\n")
        words = _read_line(sys.stdin.fileno())
        if not words.startswith(b"go "):
            return  # the scheduler has died or cancelled the run before its release
        end = supervisor.run(started_at=float(words.split()[1]))
        supervisor.record(end)
        if order.delivers or _input_ended():
            with contextlib.closing(Session(supervisor.database, _RETRY_SECONDS, _complain)) as session:
                _stand_in(supervisor, session, end)


def _stand_in(supervisor: Supervisor, session: Session, end: RunEnd) -> None:
    """Clear devices and deliver the run in place of the scheduler, which has died or does not wait."""
    from hypergauge.scheduler.devices.devices import Devices
    from hypergauge.scheduler.tracking.delivery import deliver, deliver_backlog
    from hypergauge.sql.queries.summaries import unsummarised

    folder, order, settings = supervisor.folder, supervisor.order, supervisor.database.settings
    try:
        for problem in Devices(settings).clear(session):
            sys.stderr.write(f"{problem}\n")
    finally:
        if order.delivers and order.tracking_uri and order.mlflow_run_id is None:
            time.sleep(_CREATION_SECONDS)  # MLflow may still be creating the run, and a second one must not appear
        if not folder.delivered:
            session(deliver, folder, order.tracking_uri, order.mlflow_run_id, end, _complain)
        if order.delivers and order.experiment is not None:
            session(deliver_backlog, settings.runs_dir, order.experiment, order.tracking_uri, _complain)
        # The stack's collector stores the run's last samples only while a process holds the stack.
        if order.delivers and "collector" in Stack(settings).services():
            until = time.monotonic() + _SETTLE_SECONDS
            while session(unsummarised, [folder.run_id]) and time.monotonic() < until:
                time.sleep(_SETTLE_LOOK_SECONDS)


def _complain(problem: str) -> None:
    sys.stderr.write(f"{problem}\n")


def _reap_orphans(root_pid: int) -> None:
    """Reap orphans that the supervisor has adopted as a subreaper; `Popen` reaps the command itself."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == root_pid:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def _reap_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _read_line(descriptor: int) -> bytes:
    """Read one line without a buffer, so that `select` still sees the data after it."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return bytes(line)


def _input_ended() -> bool:
    return readable([sys.stdin.fileno()], 0) and os.read(sys.stdin.fileno(), 1) == b""


if __name__ == "__main__":
    main(RunFolder(Path(sys.argv[1])))
