"""Home of a test for the real command, with database, MLflow and processes."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import psutil
import psycopg
from psycopg.rows import dict_row

from tests.support.waiting import HUNG_SECONDS, wait_for

SCRIPTS = Path(__file__).parents[1] / "data" / "scripts"
# Processes that ignore the signal are killed after this time.
GRACE = 120.0
GRACEFUL = ["env", f"BENCH_GRACE={GRACE:g}"]
# Lines of each command and service in the report of a failed test.
_LINES_SAID = 12
# Safe path (-P): as for `bench`, modules of the working directory must not be imported.
COMMAND = [sys.executable, "-P", "-m", "hypergauge.cli"]


def listen_to_interrupts() -> None:
    """Restore the default for Ctrl-C, which a shell's background processes ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def open_gate(gate: Path, status: int) -> None:
    """End a run that waits at `gate` with this exit status."""
    written = gate.with_name(f"{gate.name}-{status}")
    written.write_text(str(status))
    written.rename(gate)  # atomically: an empty gate means 0


def processes_of(run_id: str) -> list[psutil.Process]:
    """Return the live processes of a run by their environment."""
    return _with_variable("BENCH_RUN_ID", run_id)


def environment_of(run_id: str) -> dict[str, str]:
    """Return the variables of the one process of a run."""
    [process] = processes_of(run_id)
    return process.environ()


def supervisor_of(run_id: str) -> psutil.Process:
    """Return the process that supervises a run."""
    [supervisor] = _with_variable("BENCH_SUPERVISOR", run_id)
    return supervisor


def _with_variable(name: str, value: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@dataclass(frozen=True)
class Sheet:
    """Experiment file."""

    path: Path

    @property
    def rows(self) -> list[dict[str, str]]:
        """Current rows; the file must be complete at any time."""
        with self.path.open(newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        assert all(None not in row and None not in row.values() for row in rows), rows
        return rows

    def column(self, name: str) -> list[str]:
        """Return one column of the file."""
        return [row.get(name, "") for row in self.rows]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Read the file repeatedly in the context: it must always be complete, and only two columns may change."""
        before = [_what_is_the_users(row) for row in self.rows]
        problems: list[object] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.002):
                try:
                    rows = self.rows
                except (csv.Error, AssertionError, OSError) as error:
                    problems.append(error)
                    return
                if [_what_is_the_users(row) for row in rows] != before:
                    problems.append(rows)
                    return

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert not problems, problems


def _what_is_the_users(row: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if name not in ("Status", "Run")}


@dataclass
class Started:
    """Running command."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self, status: int = 0, timeout: float = HUNG_SECONDS) -> str:
        """Wait for the command's end, and return its output."""
        found = self.process.wait(timeout)
        assert found == status, self.output.read_text()
        return self.output.read_text()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the command."""
        self.process.kill()
        self.process.wait()


@dataclass
class Home:
    """``BENCH_HOME`` with its stack up; `through` is the prefix of a command that runs another one elsewhere."""

    path: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    through: Sequence[str | Path] = ()
    _started: list[Started] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a shell with only the home and `variables` set."""
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        # What else runs on the host of the tests decides whether it is quiet.
        return {**others, "BENCH_HOME": str(self.path), "BENCH_QUIET_CORES": "100000", **self.variables}

    @contextlib.contextmanager
    def stack(self) -> Iterator[Self]:
        """Keep the stack up in the context; commands started in it end before the stack."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bench("up")
        try:
            yield self
        finally:
            self.end()
            self.bench("down")

    def bench(self, *words: str | Path, status: int = 0) -> str:
        """Run a command to its end, and return both outputs."""
        return self.start(*words).wait(status)

    def json(self, *words: str) -> Any:
        """Run a command, and return its answer in JSON."""
        done = subprocess.run(
            [*self.through, *COMMAND, *words, "--json"],
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            check=True,
        )
        return json.loads(done.stdout)

    def start(self, *words: str | Path, through: Sequence[str | Path] = ()) -> Started:
        """Start a command; `through` is the prefix of a command that runs another one."""
        output = self.folder / f"output-{len(self._started)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*map(str, [*self.through, *through, *COMMAND, *words])],
                stdout=file,
                stderr=file,
                env=self.environment,
                cwd=self.folder,
                preexec_fn=listen_to_interrupts,
            )
        self._started.append(Started(process, output))
        return self._started[-1]

    def sheet(self, name: str, header: str, rows: Sequence[str]) -> Sheet:
        """Write an experiment file; ``{scripts}`` in a row is their folder."""
        path = self.folder / f"{name}.csv"
        path.write_text("\n".join([header, *(row.replace("{scripts}", str(SCRIPTS)) for row in rows)]) + "\n")
        return Sheet(path)

    def query(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Query the database."""
        with psycopg.connect(
            self.dsn, row_factory=dict_row, options="-csearch_path=bench,bench_internal,bench_dashboard,public"
        ) as connection:
            return connection.execute(query.encode(), values).fetchall()

    @cached_property
    def dsn(self) -> str:
        """Connection string of the database."""
        return self.bench("db", "url").strip()

    @cached_property
    def tracking_uri(self) -> str:
        """Address of MLflow."""
        return str(self.json("status")["services"]["mlflow"]["url"])

    def runs(self, experiment: int) -> list[dict[str, Any]]:
        """Return all runs of an experiment, by workload, position and attempt; times in Unix seconds."""
        return self.query(
            """
            select workload, position, attempt, run_id, mlflow_run_id, name, r.status, exit_code, reason, command,
                   params, extract(epoch from r.started_at)::float8 as started,
                   extract(epoch from r.ended_at)::float8 as ended,
                   extract(epoch from r.ended_at - r.started_at)::float8 as duration
            from runs r join workloads using (workload_id) where experiment_id = %s
            order by workload, position, attempt
            """,
            experiment,
        )

    def running(self, experiment: int, count: int = 1) -> list[dict[str, Any]]:
        """Wait until `count` runs of an experiment wait at their gates, and return them."""

        def at_the_gate() -> list[dict[str, Any]] | None:
            runs = [run for run in self.runs(experiment) if run["status"] == "running"]
            waiting = [run for run in runs if b"at the gate" in self.output(run["run_id"])]
            return waiting if len(waiting) == count else None

        return wait_for(at_the_gate, f"{count} runs of experiment {experiment}")

    def output(self, run_id: str) -> bytes:
        """Return a run's output so far, from its host."""
        path = self.path / "runs" / run_id / "output.log"
        return path.read_bytes() if path.exists() else b""

    def delivered(self, run_id: str) -> None:
        """Wait until the supervisor of a run, which outlives `bench run`, has delivered all its output."""
        wait_for(lambda: (self.path / "runs" / run_id / "delivered.json").exists(), f"the delivery of {run_id}")

    def mlflow(self, path: str, /, **query: str) -> bytes:
        """Query the tracking server."""
        with urllib.request.urlopen(f"{self.tracking_uri}/{path}?{urlencode(query)}", timeout=HUNG_SECONDS) as answer:
            return bytes(answer.read())

    def mlflow_run(self, run_id: str) -> dict[str, Any]:
        """Return a run in MLflow: status, params, tags and latest metrics by name."""
        run = json.loads(self.mlflow("api/2.0/mlflow/runs/get", run_id=run_id))["run"]
        names = {kind: {one["key"]: one["value"] for one in run["data"].get(kind, [])} for kind in run["data"]}
        return {"status": run["info"]["status"], "params": {}, "tags": {}, "metrics": {}, **names}

    def artifact(self, run_id: str, path: str = "output.log") -> bytes:
        """Return an artifact in MLflow."""
        return self.mlflow("get-artifact", run_uuid=run_id, path=path)

    def said(self) -> str:
        """Return the last lines of all commands and services, for the report of a failed test."""
        files = [*sorted((self.path / "log").glob("*.log")), *sorted(self.folder.glob("output-*.txt"))]
        ends = {file.name: file.read_text(errors="replace").splitlines()[-_LINES_SAID:] for file in files}
        return "\n".join(line for name, lines in ends.items() if lines for line in (f"--- {name}", *lines))

    def end(self) -> None:
        """End the commands that are still running."""
        for started in self._started:
            if started.process.poll() is None:
                started.kill()
        for folder in (self.path / "runs").glob("*"):
            for process in [*processes_of(folder.name), *_with_variable("BENCH_SUPERVISOR", folder.name)]:
                with contextlib.suppress(psutil.Error):
                    process.kill()
