"""Active run: start, order, release, watch and detach of its supervisor."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hypergauge.core.errors import ServiceFailed
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.system.polling import readable
from hypergauge.core.system.processes import signal_run
from hypergauge.gpu.vendors import VisibleGpu
from hypergauge.scheduler.devices.assigned import AssignedDevices
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.launch import launched
from hypergauge.scheduler.launch.profiled import profiled
from hypergauge.scheduler.supervision import ask_to_stop, is_supervised
from hypergauge.scheduler.supervisor.order import Order
from hypergauge.sql.runs import runs

__all__ = ["ActiveRun", "launched_with", "new_run"]

READY_SECONDS = 30.0
_DISMISS_SECONDS = 5.0
# Variables of the shell that a run must not inherit: ours leak a password, MLflow's contradict the run's id.
_NOT_INHERITED = frozenset(
    {
        "BENCH_DSN",
        "BENCH_READ_DSN",
        "BENCH_SERVICE",
        "BENCH_SUPERVISOR",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
    }
)


@dataclass(slots=True)
class ActiveRun:
    """Run that is running, or has just ended.

    Attributes
    ----------
    process
        Its supervisor if this process started it; ``None`` for a run that it attached to.
    end, status
        End and status of the run; ``None`` and ``running`` until its end.
    assigned
        Its devices.
    stdin
        Descriptor of its standard input in its supervisor; ``None`` for ``/dev/null``.
    """

    job: Job
    folder: RunFolder
    mlflow_run_id: str | None
    process: subprocess.Popen[bytes] | None = None
    end: RunEnd | None = None
    status: str = "running"
    assigned: AssignedDevices | None = None
    stdin: int | None = None

    @property
    def is_simulated(self) -> bool:
        """Return whether its GPUs are simulated."""
        return any(gpu.simulated for gpu in self.job.devices or ())

    @property
    def is_supervised(self) -> bool:
        """Return whether its supervisor is alive."""
        return self.process.poll() is None if self.process else is_supervised(self.folder)

    @property
    def pipe(self) -> IO[bytes] | None:
        """Pipe from its supervisor; ``None`` if another process started it."""
        return self.process.stdout if self.process else None

    @property
    def placements(self) -> list[runs.Placement]:
        """Placements of the run: its MIG instance, its GPUs, or the host alone."""
        run_id, host = self.folder.run_id, platform.node()
        if self.assigned and (instance := self.assigned.instance):
            assert self.job.devices
            gpu = self.job.devices[0].uuid
            return [runs.Placement(run_id, host, gpu, instance.gpu_instance_id, instance.uuid)]
        if not self.job.devices:
            return [runs.Placement(run_id, host)]
        return [runs.Placement(run_id, host, gpu_uuid=gpu.uuid) for gpu in self.job.devices]

    def start_supervisor(self, through: Sequence[str] = (), stdin: int | None = None) -> None:
        """Start its supervisor, which then waits for its order.

        Parameters
        ----------
        through
            Command prefix.
        stdin
            Descriptor of the run's standard input, which its supervisor inherits.
        """
        lock = self.assigned.lock if self.assigned else None
        self.stdin = None if stdin is None else os.dup(stdin)  # the supervisor's own 0 is its pipe
        inherited = [*([lock.fileno()] if lock else []), *([] if self.stdin is None else [self.stdin])]
        own = {name: value for name, value in os.environ.items() if name not in ("BENCH_RUN_ID", "BENCH_SERVICE")}
        with private.opened(self.folder.supervisor_log, "ab") as log:
            self.process = subprocess.Popen(
                [*through, sys.executable, "-m", "hypergauge.scheduler.supervisor.supervisor", str(self.folder.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**own, "BENCH_SUPERVISOR": self.folder.run_id},
                start_new_session=True,  # the supervisor survives Ctrl-C and the terminal's end
                cwd="/",
                pass_fds=inherited,
            )
        if self.stdin is not None:
            os.close(self.stdin)

    def order(self, order: Order) -> None:
        """Send the order to its supervisor."""
        self._send(order.encode())

    def await_ready(self, label: str, timeout: float = READY_SECONDS) -> None:
        """Wait up to `timeout` seconds until its supervisor is ready.

        Raises
        ------
        ServiceFailed
            The supervisor did not start; the message has the reason and the run's `label`.
        """
        assert self.process is not None
        assert self.process.stdout is not None
        if not readable([self.process.stdout], timeout) or self.process.stdout.readline() != b"ready\n":
            self.process.kill()
            last = self.read_supervisor_log().splitlines()[-1:]
            why = "".join(last) or f"it ended with status {self.process.wait()}"
            raise ServiceFailed(f"the supervisor of {label} did not start: {why}")

    def read_supervisor_log(self) -> str:
        """Return the content of its supervisor's log; empty if there is none."""
        try:
            return self.folder.supervisor_log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def release(self, started_at: float) -> None:
        """Release the run; `started_at` is its start in Unix seconds."""
        self._send(f"go {started_at!r}\n".encode())

    def dismiss(self) -> None:
        """End the supervisor of a run that will not be released."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_DISMISS_SECONDS)

    def ask_to_stop(self, reason: str | None = None) -> None:
        """Ask its supervisor to end it for `reason`."""
        # The supervisor first: with a command prefix, `process` is another program.
        if not ask_to_stop(self.folder, reason) and self.process is not None:
            self.process.terminate()

    def interrupt(self) -> None:
        """Let its supervisor pass Ctrl-C on to it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)

    def suspend(self, number: signal.Signals) -> None:
        """Stop or continue its processes, by SIGSTOP or SIGCONT; a mark lets its supervisor continue them at need."""
        with contextlib.suppress(OSError):
            if number == signal.SIGSTOP:
                self.folder.suspended.touch()
            signal_run(self.folder.run_id, number)
            if number == signal.SIGCONT:
                self.folder.suspended.unlink(missing_ok=True)

    def detach(self, *, wait: bool = True) -> None:
        """Close the pipes to its supervisor, which continues alone while the run does.

        With `wait`, wait for the exit of an ended run's supervisor.
        """
        if self.process is None:
            return
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if wait and self.status != "running":
            self.process.wait()
        elif not wait:  # reap the supervisor, which stays a child of this process
            threading.Thread(target=self.process.wait, name="supervisor", daemon=True).start()

    def _send(self, line: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; `await_ready` or `Workload` notices
            self.process.stdin.write(line)
            self.process.stdin.flush()


def new_run(run_id: str, job: Job, workload_id: int, host: str) -> runs.NewRun:
    """Return the database's row of a job's run before its start; `host` is empty if it is not known yet."""
    return runs.NewRun(
        run_id=run_id,
        mlflow_run_id=None,
        workload_id=workload_id,
        position=job.position,
        attempt=job.attempt,
        name=job.name,
        owner=getpass.getuser(),
        command=job.shown_command,
        environment=job.environment,
        collocation=str(job.collocation),
        devices="+".join(gpu.uuid for gpu in job.devices or ()),
        params=job.params,
        host=host,
        fingerprint=job.fingerprint,
        simulated=any(gpu.simulated for gpu in job.devices or ()),
        profilers="+".join(job.profilers),
        actions=job.actions,
        exporters=job.exporters,
    )


def launched_with(
    active: ActiveRun,
    wrappers: Mapping[str, Mapping[str, str]],
    variables: Mapping[str, str],
    not_inherited: Collection[str],
    client: Path,
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a run.

    Parameters
    ----------
    wrappers
        Options by profiler.
    variables
        Variables besides those of its command and its devices.
    not_inherited
        Variables of the shell that the run must not inherit, besides ours.
    client
        Folder of the client for training scripts.
    """
    job, folder, assigned = active.job, active.folder, active.assigned
    assert assigned is not None
    additions = {
        **job.command.variables,
        **variables,
        "BENCH_SPANS": str(folder.spans),
        "BENCH_TENSORS": str(folder.tensors),
    }
    additions |= assigned.variables
    ours = _NOT_INHERITED.union(not_inherited, assigned.not_inherited)
    if job.collocation.kind != "shared":  # the shell's MPS client settings do not apply
        ours |= {name for name in os.environ if name.startswith("CUDA_MPS_")}
    shell = {name: value for name, value in os.environ.items() if name not in ours}
    gpus: Sequence[VisibleGpu] = [] if active.is_simulated else assigned.visible or []
    command = profiled(job.command, wrappers, folder)
    return launched(
        command, folder, shell=shell, additions=additions, client=client, gpus=gpus, with_input=active.stdin is not None
    )
