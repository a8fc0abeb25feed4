"""Site under test: server, exporters, collector and schedules, each of which can be killed and restarted."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from random import Random

import psutil

from benchmarks.campaign import answers
from benchmarks.campaign.disturbed_server import DisturbedServer, EmbeddedDisturbedServer
from benchmarks.campaign.sheets import Sheet
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.services import Service, free_port
from hypergauge.core.system.uptime import uptime
from hypergauge.scheduler.supervision import is_running
from hypergauge.sql.server.embedded import EmbeddedServer

__all__ = ["Site"]

_COMMAND = (sys.executable, "-P", "-m", "hypergauge.cli")
_OPTIONS = ("--retries", f"{Sheet.RETRIES}", "--timeout", "15")
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_HERE, _AWAY = "10.89.0.1", "10.89.0.2"
_SPOOL = "24m"  # three segments
_DATABASE = "512m"
# Supervisors outlive a schedule and deliver to MLflow; services end after them.
_SETTLE_SECONDS = 120.0


class Site:
    """All processes of a campaign, in one folder; `close` ends them.

    Attributes
    ----------
    server
        Server with the runs.
    samples
        Server with the exporters' samples: the same one, or the embedded one of the collector.
    left_out
        Reasons why this machine does not allow a fault, by its name.
    logs
        The logs of the exporters, by job.
    killed
        Time at which the campaign killed a run's supervisor, by run id.
    lost
        Samples counted as lost by the collector.
    problems
        Findings, each with its time.
    """

    def __init__(self, folder: Path, server: DisturbedServer | None, workloads: int, chance: Random) -> None:
        self.folder = folder
        self.home, self.second = folder / "home", folder / "second"
        self.embedded = server is None
        self.server = server or _embedded(self.home)
        self.samples = server or _embedded(self.second)
        self.sheets: list[Sheet] = []
        self.left_out: dict[str, str] = {}
        self.logs: dict[str, Path] = {}
        self.killed: dict[str, float] = {}
        self.lost = self._lost = 0.0
        self.problems: list[tuple[float, str]] = []
        self.left = 0
        self.refused = 0
        self._workloads, self._chance = workloads, chance
        self._stack = contextlib.ExitStack()
        self._schedule: subprocess.Popen[bytes] | None = None
        self._ended: float | None = None  # time of the schedule's end
        self._killed = False
        self._collector: subprocess.Popen[bytes] | None = None

    def open(self, *, timescaledb: bool) -> None:
        """Start server, exporters and collector."""
        isolation = _isolate()
        if isolation is None:
            for server in self.servers if self.embedded else ():
                self._mount(server.folder, _DATABASE)
        else:
            self.left_out |= dict.fromkeys(("network", "spool", "disk"), isolation)
        if not self.embedded:
            self.left_out["disk"] = "the server's data are on a disk of its own only with --embedded"
        dsn = self._stack.enter_context(self.server.running())
        if self.embedded:
            self._stack.enter_context(self.samples.running())
        if timescaledb:
            self.server.do("create extension timescaledb")
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        self._environment = {**others, **({"BENCH_DSN": dsn} if dsn else {}), **self._clock()}
        targets = {"near": self._exporter("near", "127.0.0.1")}
        if isolation is None:
            self._mount(self.second / "spool", _SPOOL)
            targets["far"] = self._exporter("far", _AWAY)
        groups = [{"targets": [address], "labels": {"job": job}} for job, address in targets.items()]
        (self.folder / "targets.json").write_text(json.dumps(groups))
        self._stack.callback(self._end_all)
        self.start_collector()

    def close(self) -> None:
        """End everything, by pid; safe to call twice."""
        self._stack.close()

    @property
    def servers(self) -> list[DisturbedServer]:
        """Return the database servers."""
        return list(dict.fromkeys((self.server, self.samples)))

    def _mount(self, folder: Path, size: str) -> None:
        folder.mkdir(parents=True, mode=0o700)
        _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder))
        self._stack.callback(_run, "umount", "--lazy", str(folder))

    # Schedule.

    def tick(self, more: bool) -> bool:
        """Start the next command; return whether work is left. Without `more`, start no further schedule."""
        if self._collector is not None and self._collector.poll() is not None:
            self.report(f"the collector ended by itself, with status {self._collector.returncode}")
            self.start_collector()
        if self._killed:
            return True
        if self._schedule is None:
            if self._ended is not None and not self._is_settled():
                return True
            self._ended = None
            if more:
                number = len(self.sheets) + 1
                self.sheets.append(Sheet.make(self.folder, number, self._workloads, self._chance))
                self.start_schedule()
            return more
        if (status := self._schedule.poll()) is None:
            return True
        sheet, self._schedule = self.sheets[-1], None
        if sheet.due:
            self._gave_up(sheet, status)
            self.start_schedule()
        else:
            self._ended = uptime()
            if status != (expected := sheet.expected_status):
                self.report(f"schedule {sheet.experiment} ended with status {status} instead of {expected}")
        return True

    def start_schedule(self) -> None:
        """Run ``bench schedule`` on the newest file."""
        sheet, self._killed = self.sheets[-1], False
        sheet.begin(uptime())
        self._schedule = self._bench(self.home, sheet.output, "schedule", str(sheet.path), *_OPTIONS)

    def kill_schedule(self) -> None:
        """Kill ``bench schedule`` without its child processes."""
        assert self._schedule is not None
        self._schedule.kill()
        self._schedule.wait()
        self._schedule, self._killed = None, True
        self.sheets[-1].kills.append(uptime())

    @property
    def scheduling(self) -> bool:
        """Return whether a schedule is running."""
        return self._schedule is not None and self._schedule.poll() is None

    def _gave_up(self, sheet: Sheet, status: int) -> None:
        output = " ".join(sheet.output.read_text(errors="replace").split())[-300:]
        # Without a database, commands and services fail at once.
        if status and sheet.due == sheet.found and self.server.disturbed >= sheet.begun_at:
            self.refused += 1
            time.sleep(1)
        else:
            self.report(f"schedule {sheet.experiment} gave up with status {status}: {output}")

    def _is_settled(self) -> bool:
        """Return whether no process of the home is left; after some time a remaining one is a finding, and ended."""
        assert self._ended is not None
        if not (left := self.processes()):
            return True
        if uptime() - self._ended < _SETTLE_SECONDS:
            time.sleep(0.5)
            return False
        for process in left:
            with contextlib.suppress(psutil.Error):
                self.left += 1
                self.report(f"process {process.pid} is left: {' '.join(process.cmdline())[:200]}")
                process.kill()
        return True

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the home: services, supervisors, runs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("BENCH_HOME") == str(self.home) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def running(self) -> list[RunFolder]:
        """Return the live runs."""
        return [
            folder
            for folder in RunFolder.all(self.home / "runs")
            if is_running(folder) and (state := folder.state()) and state.started_at
        ]

    def measuring(self) -> Service | None:
        """Return the collector of the schedule's own stack, while it runs."""
        service = Service.read(self.home / "stack" / "collector.service")
        return service if service is not None and service.alive else None

    # Collector.

    def start_collector(self) -> None:
        """Start the collector of the exporters."""
        self._port = free_port()
        words = ("--targets", str(self.folder / "targets.json"), "--port", str(self._port))
        self._collector = self._bench(self.second, self.folder / "collector.txt", "collector", "run", *words)

    def kill_collector(self) -> None:
        """Kill it."""
        assert self._collector is not None
        self.count_lost()
        self._collector.kill()
        self._collector.wait()
        self._collector = None
        self.lost, self._lost = self.lost + self._lost, 0.0

    def stop_collector(self) -> None:
        """Stop it gracefully, so that its spool is written."""
        assert self._collector is not None
        self.count_lost()
        self.lost += self._lost
        self._collector.terminate()
        if status := self._collector.wait(_SETTLE_SECONDS):
            self.report(f"the collector stopped with status {status}")
        self._collector = None

    def metric(self, name: str) -> float | None:
        """Return one of the collector's own metrics, if it answers."""
        with contextlib.suppress(OSError), urllib.request.urlopen(
            f"http://127.0.0.1:{self._port}/metrics", timeout=5
        ) as answer:  # fmt: skip
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
            return float(found[1]) if found else None
        return None

    def count_lost(self) -> None:
        """Read the collector's count of lost samples."""
        before, self._lost = self._lost, self.metric("bench_collector_lost_samples_total") or self._lost
        if self._lost > before:
            print(f"           {self._lost - before:g} samples are counted as lost", file=sys.stderr, flush=True)

    # Host.

    def set_clock(self, seconds: int) -> None:
        """Set the clock of all processes except server and exporters ahead or back."""
        with (self.folder / "clock").open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def set_network(self, up: bool) -> None:
        """Connect or disconnect the other exporter's host."""
        _run("ip", "link", "set", "bench0", "up" if up else "down")

    def report(self, problem: str, at: float | None = None) -> None:
        """Add a finding, of now or of another time."""
        self.problems.append((uptime() if at is None else at, problem))
        print(f"!! {problem}", file=sys.stderr, flush=True)

    def _bench(self, home: Path, output: Path, *words: str) -> subprocess.Popen[bytes]:
        with output.open("ab") as file:
            return subprocess.Popen(
                [*_COMMAND, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder,
                env={**self._environment, "BENCH_HOME": str(home)}, start_new_session=True,
            )  # fmt: skip

    def _clock(self) -> dict[str, str]:
        """Return the environment of programs with a clock set by the campaign."""
        file, library = self.folder / "clock", self.folder / "clock.so"
        file.write_bytes(bytes(8))
        if (compiler := shutil.which("cc")) is None:
            self.left_out["clock"] = "there is no C compiler (cc)"
            return {}
        _run(compiler, "-shared", "-fPIC", "-o", str(library), str(Path(__file__).with_name("clock.c")))
        return {"LD_PRELOAD": str(library), "CLOCK_FILE": str(file)}

    def _exporter(self, job: str, address: str) -> str:
        log = self.logs[job] = self.folder / f"{job}.log"
        apart = address != "127.0.0.1"
        words = [sys.executable, answers.__file__, str(log), "0.0.0.0" if apart else address]
        process = subprocess.Popen([*(("unshare", "--net") if apart else ()), *words], stdout=subprocess.PIPE)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        if apart:
            _run("ip", "link", "add", "bench0", "type", "veth", "peer", "name", "bench1", "netns", str(process.pid))
            there = ("nsenter", "--net", "--target", str(process.pid))
            for where, own, device in (((), _HERE, "bench0"), (there, _AWAY, "bench1")):
                _run(*where, "ip", "address", "add", f"{own}/24", "dev", device)
                _run(*where, "ip", "link", "set", device, "up")
        return f"{address}:{port}"

    def _end_all(self) -> None:
        for process in (self._schedule, self._collector):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for one in self.processes():
            with contextlib.suppress(psutil.Error):
                one.kill()


def _embedded(home: Path) -> DisturbedServer:
    return EmbeddedDisturbedServer(EmbeddedServer(Settings(home=home).database_dir))


def _isolate() -> str | None:
    """Move this process to network and mount namespaces of its own; return the reason where that is impossible."""
    for program in ("ip", "mount", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS):
        return f"it needs root: {os.strerror(ctypes.get_errno())}"
    _run("ip", "link", "set", "lo", "up")
    _run("mount", "--make-rprivate", "/")
    return None


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
