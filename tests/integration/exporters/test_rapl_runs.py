"""Energy of real processes by the exporter ``rapl`` over HTTP, on counters in the kernel's layout.

The processes burn CPU time between scrapes and wait during them, so that the kernel's own CPU times are exact for each
interval, whatever else the host does.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.core.system.processes import read_stat
from hypergauge.exporters.rapl import RaplExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.server import ExporterServer
from tests.support.exporters.powercap import Counter, zone
from tests.support.exporters.process import BURN, END
from tests.support.waiting import HUNG_SECONDS, wait_for_environment

# A child burns for each line that it reads, and says when it has.
BURNER = BURN + "\nfor line in sys.stdin: burn(float(line)); say('burnt')"
TICK = 1 / os.sysconf("SC_CLK_TCK")
Parts = dict[str, dict[str, float]]


@dataclass
class Run:
    """Run with one process."""

    folder: RunFolder
    process: subprocess.Popen[bytes]
    started_at: float

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    def start(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n".encode())
        self.process.stdin.flush()

    def finish(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"burnt\n"

    def used(self) -> float:
        stat = read_stat(self.process.pid)
        assert stat is not None
        return stat.own_seconds

    def end(self) -> float:
        """End the run as its supervisor does, and return its CPU time."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        used = usage.ru_utime + usage.ru_stime
        end = replace(END, started_at=self.started_at, ended_at=time.time(), cpu_seconds=used)
        self.folder.write_end(end)
        return used


@dataclass
class Host:
    """Host with two packages, their memory, and the exporter."""

    home: Path
    url: str
    packages: list[Counter]
    memory: list[Counter]
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def run(self, *, known: bool = True) -> Run:
        """Start a run; the exporter knows it as soon as it has a state."""
        run_id, started_at = uuid.uuid4().hex, time.time()
        process = self.stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", BURNER],
                env={**os.environ, "BENCH_RUN_ID": run_id},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        self.stack.callback(process.kill)
        made = RunFolder(self.home / "runs" / run_id)
        if known:
            self.show(made, process.pid, started_at)
        wait_for_environment(process.pid, "BENCH_RUN_ID")
        run = Run(made, process, started_at)
        run.start(0)
        run.finish()  # Python has started
        return run

    def show(self, run: RunFolder, pid: int, started_at: float) -> None:
        run.create({})
        run.write_state(SupervisorState(os.getpid(), 0.0, pid, started_at))

    def add(self, package: float, memory: float) -> None:
        """Add energy, a third of it on the second socket."""
        for counters, joules in ((self.packages, package), (self.memory, memory)):
            counters[0].add(joules * 2 / 3)
            counters[1].add(joules / 3)

    def scrape(self) -> dict[str, Parts]:
        """Return the totals by domain: of the counters, of idle, other and attributed energy, by run."""
        with urllib.request.urlopen(self.url, timeout=HUNG_SECONDS) as answer:
            text = answer.read().decode()
        found: dict[str, Parts] = {"package": {}, "dram": {}}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                words = sample.name.split("_")
                if sample.name.startswith(("node_rapl_package", "node_rapl_dram")):
                    of = found[words[2]].setdefault("host", {})
                    of[""] = of.get("", 0.0) + sample.value
                elif sample.name.endswith("_energy_joules_total"):
                    of = found[sample.labels["domain"]].setdefault(words[2], {})
                    who = sample.labels.get("run_id", "")
                    of[who] = of.get(who, 0.0) + sample.value
        return found


def since(before: Parts, now: Parts) -> Parts:
    return {
        kind: {who: value - before.get(kind, {}).get(who, 0.0) for who, value in of.items()} for kind, of in now.items()
    }


def busy_seconds() -> float:
    """Return the CPU time of all processes and the kernel, by `/proc/stat`."""
    user, nice, system, _idle, _waiting, interrupts, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + interrupts + soft) * TICK


def timed_scrape(host: Host) -> tuple[float, dict[str, Parts], float]:
    """Scrape, and return the host's CPU time before and after as well."""
    before = busy_seconds()
    return before, host.scrape(), busy_seconds()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    # The counters start over every 1000 J: more than once in a test, and at most once between two scrapes.
    wraps = 1_000_000_000
    packages = [Counter(zone(tmp_path, f"intel-rapl:{n}", f"package-{n}", 990_000_000, wraps)) for n in (0, 1)]
    memory = [Counter(zone(tmp_path, f"intel-rapl:{n}:0", "dram", 999_999_999, wraps)) for n in (0, 1)]
    zone(tmp_path, "intel-rapl:2", "psys", 7)
    exporter = RaplExporter(ExporterOptions(home=tmp_path, own_runs=True), tmp_path)
    with ExporterServer(exporter) as server:
        made = Host(tmp_path, server.url, packages, memory)
        with made.stack:
            yield made


def check_sums(parts: Parts) -> None:
    """Check that runs, idle and other add up to the counter."""
    total = sum(sum(of.values()) for kind, of in parts.items() if kind != "host")
    assert total == pytest.approx(parts["host"][""], rel=1e-9, abs=1e-6)


def test_runs_have_their_share_of_the_kernels_cpu_time(host: Host) -> None:
    first = host.scrape()
    time.sleep(0.6)
    host.add(6, 1)
    idle = host.scrape()
    for domain in ("package", "dram"):
        assert since(first[domain], idle[domain])["idle"] == pytest.approx(first_idle(host, domain))

    one, two = host.run(), host.run()
    before, last, after = timed_scrape(host)
    for seconds, joules in ((0.4, 900), (0.2, 700), (0.5, 1200)):
        cpu = (one.used(), two.used())
        one.start(seconds)
        two.start(seconds / 2)
        one.finish()
        two.finish()
        host.add(joules, joules / 10)
        used = [now - then for now, then in zip((one.used(), two.used()), cpu, strict=True)]
        # On a busy host a scrape takes long. The exporter reads the host's CPU time at some moment of it.
        earliest, now, latest = timed_scrape(host)
        low, high = earliest - after, latest - before
        assert min(used) > 5 * TICK
        for domain in ("package", "dram"):
            parts = since(last[domain], now[domain])
            check_sums(parts)
            rest = parts["host"][""] - parts["idle"][""]
            assert rest > 0
            mine, other = (parts["attributed"][run.run_id] for run in (one, two))
            # The counts of ticks differ by one each, and those of the host by one of each core.
            assert mine / other == pytest.approx(used[0] / used[1], rel=2 * TICK / used[1])
            few, many = low - 8 * TICK, high + 8 * TICK + sum(used)
            assert rest * used[0] / many <= mine * 1.001
            assert mine <= rest * used[0] / max(few, sum(used)) * (1 + 4 * TICK / used[1])
        before, last, after = earliest, now, latest
    assert host.packages[0].joules > 1000, "the counter started over"
    for domain in ("package", "dram"):
        check_sums(since(first[domain], last[domain]))


def first_idle(host: Host, domain: str) -> dict[str, float]:
    """Return that all energy so far is idle."""
    counters = host.packages if domain == "package" else host.memory
    return {"": sum(counter.joules for counter in counters)}


def test_a_run_between_two_scrapes_has_its_share(host: Host) -> None:
    lasting = host.run()
    host.scrape()
    time.sleep(0.6)
    host.add(6, 1)
    last = host.scrape()

    short = host.run()
    cpu = lasting.used()
    for run, seconds in ((lasting, 0.3), (short, 0.6)):
        run.start(seconds)
        run.finish()
    used = [lasting.used() - cpu, short.end()]
    host.add(900, 90)
    now = host.scrape()
    parts = since(last["package"], now["package"])
    check_sums(parts)
    assert parts["attributed"][short.run_id] / parts["attributed"][lasting.run_id] == pytest.approx(
        used[1] / used[0], rel=2 * TICK / used[0]
    )

    # Energy after its end is not the run's, whose total is final.
    lasting.start(0.3)
    lasting.finish()
    host.add(900, 90)
    later = host.scrape()
    after = since(now["package"], later["package"])
    check_sums(after)
    assert after["attributed"][short.run_id] == 0
    assert after["attributed"][lasting.run_id] > 0
    with urllib.request.urlopen(host.url, timeout=HUNG_SECONDS) as answer:
        text = answer.read().decode()
    assert f'bench_rapl_run_end_time_seconds{{run_id="{short.run_id}"}}' in text
    assert f'bench_rapl_run_end_time_seconds{{run_id="{lasting.run_id}"}}' not in text


def test_children_that_were_waited_for_count(host: Host) -> None:
    run = host.run()
    host.scrape()
    time.sleep(0.6)
    host.add(6, 1)
    began, last = busy_seconds(), host.scrape()
    code = BURN + "\nif os.fork() == 0:\n    burn(0.4); os._exit(0)\nos.wait(); say('burnt'); sys.stdin.read()"
    parent = host.stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "BENCH_RUN_ID": run.run_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    host.stack.callback(parent.kill)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"burnt\n"
    stat = read_stat(parent.pid)
    assert stat is not None
    assert stat.reaped_seconds >= 0.4 - TICK
    host.add(900, 90)
    parts = since(last["package"], host.scrape()["package"])
    check_sums(parts)
    rest = parts["host"][""] - parts["idle"][""]
    # The kernel counts in whole ticks.
    assert parts["attributed"][run.run_id] >= rest * (0.4 - 2 * TICK) / (busy_seconds() - began + 8 * TICK)


def test_a_run_that_is_seen_late_has_no_share_of_what_it_used_before(host: Host) -> None:
    late = host.run(known=False)
    host.scrape()
    time.sleep(0.6)
    host.add(6, 1)
    late.start(0.5)
    late.finish()
    last = host.scrape()
    host.show(late.folder, late.process.pid, time.time() - 60)
    host.add(900, 90)
    now = host.scrape()
    check_sums(since(last["package"], now["package"]))
    assert late.run_id not in now["package"].get("attributed", {})
    late.start(0.3)
    late.finish()
    host.add(900, 90)
    assert host.scrape()["package"]["attributed"][late.run_id] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_run_of_another_user_has_no_value(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name, contextlib.ExitStack() as stack:
        root = Path(name)
        root.chmod(0o755)
        package = Counter(zone(root, "intel-rapl:0", "package-0", 0))
        host = Host(tmp_path, "", [package, package], [package, package], stack)
        run = host.run()
        os.seteuid(65534)
        try:
            exporter = RaplExporter(ExporterOptions(home=root), root)
            with ExporterServer(exporter) as server:
                host.url = server.url
                host.scrape()
                run.start(0.3)
                run.finish()
                os.seteuid(0)
                package.add(900)
                os.seteuid(65534)
                parts = host.scrape()["package"]
        finally:
            os.seteuid(0)
        assert run.run_id not in parts.get("attributed", {})
        assert parts["idle"][""] + parts["other"][""] == pytest.approx(900)
