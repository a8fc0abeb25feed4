"""Executor ``slurm``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu import Gpu
from hypergauge.gpu.vendors import VENDORS
from hypergauge.scheduler.executors.base import Account, ExecutorAway, JobState, Request, Submission
from hypergauge.scheduler.executors.slurm import output_parser
from hypergauge.scheduler.executors.slurm.commands import SlurmRefused, run_command
from hypergauge.scheduler.executors.slurm.options import COLUMN, SlurmOptions, cell_of, row_options
from hypergauge.scheduler.experiment.experiment_file import Row

__all__ = ["SlurmExecutor"]

_NO_SUCH_JOB = "Invalid job id"
# Slurm's message about resources that no node has, or only a node that is down.
_NOT_AVAILABLE = "Requested node configuration is not available"
_AWAY_STATES = ("*", "down", "drain", "fail", "maint", "unk", "boot", "plan", "power", "no_respond", "reboot")
# `srun` fails at once while the controller does not answer.
_WAITING = ("bash", "-c", 'until scontrol ping 2>/dev/null | grep -q "is UP"; do sleep 2; done; exec "$@"', "bash")


class SlurmExecutor:
    """Slurm as a batch system.

    Parameters
    ----------
    section
        ``[slurm]`` of bench.toml.
    file
        Path of bench.toml; ``None`` if there is none.
    """

    name = "slurm"

    def __init__(self, section: Mapping[str, Any], file: Path | None) -> None:
        self._options = SlurmOptions.read(section, file)
        self.python = self._options.python or sys.executable
        self.home = self._options.home

    def problems(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        """Yield the problems of a workload's rows, including contradictions between them."""
        first: tuple[str, ...] | None = None
        for row in rows:
            if uuid := next((word for word in row.devices if not word.isdecimal()), None):
                yield (
                    row,
                    "Devices",
                    f"{uuid} is one GPU of one host; on Slurm write 0, 1 …, which group the rows that share",
                )
            try:
                options = self._of(row)
            except BadRequest as error:
                yield row, COLUMN, str(error)
                continue
            if first is not None and options != first:
                column = COLUMN if cell_of(row) else "Workload"
                yield (
                    row,
                    column,
                    "the rows of a workload share one job, but the options of this row differ from those of the first",
                )
            first = options if first is None else first

    def request(self, rows: Sequence[Row]) -> Request:
        """Return the resources of a workload: the GPUs that its rows name, and one instance for each row with a profile."""
        whole = {word for row in rows if row.collocation.profile is None for word in row.devices}
        profiles = Counter(row.collocation.profile for row in rows if row.collocation.profile is not None)
        return Request(len(whole), dict(profiles), self._of(rows[0]))

    def check(self, request: Request, directory: Path) -> str | None:
        """Return why no node can satisfy the request, ``None`` if one may."""
        script = "#!/bin/sh\n"
        try:
            run_command("sbatch", "--test-only", *self._words(request), f"--chdir={directory}", text=script)
        except SlurmRefused as error:
            return self._hinted(str(error), request)
        return None

    def submit(self, job: Submission) -> str:
        """Submit a job; return its id."""
        answer = run_command(
            "sbatch", "--parsable", *self._words(job.request), f"--job-name={job.label}", f"--comment={job.name}",
            f"--chdir={job.directory}", "--export=ALL", text=job.script, environment=job.environment,
        )  # fmt: skip
        return answer.strip().partition(";")[0]

    def find(self, name: str) -> str | None:
        """Return the id of the job with the comment `name`."""
        lines = run_command("squeue", "--noheader", "--me", "--states=all", "--format=%A|%k").splitlines()
        return next((job for job, _, comment in (line.partition("|") for line in lines) if comment == name), None)

    def look(self, job_id: str) -> JobState | None:
        """Return the state of a job from the queue, which keeps ended jobs for minutes, else from the accounting."""
        try:
            lines = run_command(
                "squeue", "--noheader", "--states=all", f"--jobs={job_id}", f"--format={output_parser.QUEUE_FORMAT}"
            ).splitlines()
            state = output_parser.queue_line(lines[0]) if lines else None
        except SlurmRefused as error:
            if _NO_SUCH_JOB not in str(error):
                raise
            state = None
        if state is not None and state.state != "ended":
            return state
        found = self._steps(job_id) or []
        host, ended_at = (state.host, state.ended_at) if state else (None, None)
        for one in found:
            if one.is_job and one.has_ended:  # it also names the user who cancelled
                state = output_parser.job_state(one.state, "", host or "", ended_at)
        if state is None:
            return None
        exits = {
            run_id: output_parser.run_exit(one.state)
            for run_id, one in output_parser.by_run(found).items()
            if one.has_ended
        }
        if state.run_exit is not None:  # Slurm marks its steps only as cancelled
            exits = {
                run_id: state.run_exit if end and end.status == "stopped" else end for run_id, end in exits.items()
            }
        return replace(state, run_exits=exits)

    def cancel(self, job_id: str) -> None:
        """End a job, unless it has ended."""
        try:
            run_command("scancel", job_id)
        except SlurmRefused as error:
            if _NO_SUCH_JOB not in str(error):
                raise

    def accounts(self, job_id: str) -> Mapping[str, Account] | None:
        """Return the resource usage of an ended job's steps, by run id."""
        found = self._steps(job_id)
        if found is None:
            return None
        return {run_id: one.account for run_id, one in output_parser.by_run(found).items() if one.has_ended}

    def step(self, run_id: str) -> Sequence[str]:
        """Return the command prefix of a step, which shares all resources of the job with the other steps."""
        cores = os.environ.get("SLURM_CPUS_ON_NODE", "1")
        return [
            *_WAITING,
            "srun",
            f"--job-name={run_id}",
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={cores}",
            "--mem=0",
        ]

    def why_lost(self, log: str) -> str | None:
        """Return why a step has ended, from the output of srun and the node's daemon."""
        return output_parser.why_lost(log)

    def visible(self, gpus: Sequence[Gpu]) -> tuple[Sequence[Gpu], Sequence[str]]:
        """Return the GPUs and MIG instances that Slurm has allocated to this job, from the vendors' variables."""
        whole: list[Gpu] = []
        named: list[str] = []
        for vendor in VENDORS.values():
            own = [gpu for gpu in gpus if gpu.vendor == vendor.name]
            variable = vendor.variables[0].name if own and vendor.variables else ""
            words = [word for word in os.environ.get(variable, "").split(",") if word]
            whole += [gpu for word in words for gpu in own if word in (str(gpu.index), gpu.uuid, gpu.runtime_id)]
            named += words
        instances = [one.uuid for gpu in gpus for one in gpu.mig if one.uuid in named or gpu in whole]
        parts = [gpu for gpu in gpus if gpu not in whole and any(one.uuid in instances for one in gpu.mig)]
        return [*whole, *parts], instances

    def restarted(self) -> str | None:
        """Return why this job was restarted, ``None`` at its first start."""
        return "Slurm: requeued" if int(os.environ.get("SLURM_RESTART_COUNT", "0")) else None

    def _of(self, row: Row) -> tuple[str, ...]:
        cell = cell_of(row)
        return row_options(cell.text) if cell else ()

    def _words(self, request: Request) -> list[str]:
        """Return the options of a job; later options override earlier ones."""
        gres = [self._options.gres.format(count=request.gpus)] if request.gpus else []
        gres += [self._options.mig.format(profile=name, count=n) for name, n in sorted(request.profiles.items())]
        gres_option = [f"--gres={','.join(gres)}"] if gres else []
        return [*self._options.words, *request.options, "--nodes=1", "--ntasks=1", *gres_option]

    def _steps(self, job_id: str) -> list[output_parser.Step] | None:
        """Return the steps of a job in the accounting, earlier starts first; ``None`` without accounting."""
        try:
            text = run_command(
                "sacct", "--noheader", "--parsable2", "--noconvert", "--duplicates", f"--jobs={job_id}",
                f"--format={output_parser.STEP_FIELDS}",
            )  # fmt: skip
        except (ExecutorAway, BadRequest):
            return None
        return output_parser.steps(text)

    def _hinted(self, why: str, request: Request) -> str | None:
        """Return a refusal with the nearest valid choice; ``None`` if the refusal is temporary."""
        nodes = [line.split("|") for line in run_command("sinfo", "--noheader", "--format=%R|%T").splitlines()]
        if _NOT_AVAILABLE in why and any(word in state.lower() for _, state in nodes for word in _AWAY_STATES):
            return None
        partitions = sorted({name for name, _ in nodes})
        wanted = _last("--partition", "-p", self._words(request))
        if "partition" in why.lower() and wanted is not None and wanted not in partitions:
            return f"Slurm has no partition {wanted!r}{did_you_mean(wanted, partitions)}"
        return f"Slurm refuses it: {why[:1].lower()}{why[1:]} (requested: {' '.join(self._words(request))})"


def _last(long: str, short: str, options: Sequence[str]) -> str | None:
    """Return the last value of an option."""
    found = None
    for index, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name == long or word == short:
            found = value if equals else next(iter(options[index + 1 :]), None)
        elif word.startswith(short) and not word.startswith("--"):
            found = word.removeprefix(short)
    return found
