"""Campaign of random faults over schedules, audited against independent logs.

Runs and exporters keep logs of their own. After the campaign the database must agree with them: end and duration of each
run, and each answer of the exporters once.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.campaign.audit import audit
from benchmarks.campaign.disturbed_server import DisturbedServer, fill
from benchmarks.campaign.recovery import Recovery, percentiles
from benchmarks.campaign.site import Site
from benchmarks.support.servers import Kind
from hypergauge.core.errors import BadRequest
from hypergauge.core.system.uptime import uptime

__all__ = ["measure"]

_ENDING_SECONDS = 15.0  # longest end of a schedule
_FULL_MINUTES = 15.0  # a shorter campaign has fewer workloads, and shorter faults


class NotNow(Exception):
    """Nothing can be disturbed now."""


@contextmanager
def _collector(site: Site, _: random.Random) -> Iterator[str]:
    site.kill_collector()
    try:
        yield "the collector is killed"
    finally:
        site.start_collector()


@contextmanager
def _measuring(site: Site, _: random.Random) -> Iterator[str]:
    # Not while the stack starts: the end of a service then also ends the command.
    if not site.scheduling or not site.running() or (service := site.measuring()) is None:
        raise NotNow
    begun_at = site.sheets[-1].begun_at
    os.kill(service.pid, signal.SIGKILL)
    yield "the stack's collector is killed"
    deadline = time.monotonic() + _ENDING_SECONDS
    while site.scheduling and site.sheets[-1].begun_at == begun_at and site.measuring() in (None, service):
        # A schedule that ends stops its services first.
        if time.monotonic() > deadline:
            site.report("the stack's collector is not started again")
            break
        time.sleep(0.2)


@contextmanager
def _scheduler(site: Site, _: random.Random) -> Iterator[str]:
    if not site.scheduling:
        raise NotNow
    site.kill_schedule()
    try:
        yield f"the scheduler of experiment {site.sheets[-1].experiment} is killed"
    finally:
        site.start_schedule()


@contextmanager
def _supervisor(site: Site, chance: random.Random) -> Iterator[str]:
    if not (running := site.running()):
        raise NotNow
    folder = chance.choice(running)
    state = folder.state()
    assert state is not None
    site.killed[folder.run_id] = uptime()
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.pid, signal.SIGKILL)
    yield f"the supervisor of run {folder.run_id[:8]} is killed"


@contextmanager
def _server(site: Site, chance: random.Random) -> Iterator[str]:
    server, name = _running_server(site, chance)
    with server.killed():
        yield f"{name} is killed"


@contextmanager
def _backend(site: Site, chance: random.Random) -> Iterator[str]:
    server, name = _running_server(site, chance)
    server.kill_backend(chance)
    yield f"a backend of {name} is killed"


@contextmanager
def _frozen(site: Site, chance: random.Random) -> Iterator[str]:
    server, name = _running_server(site, chance)
    only_first = chance.random() < 0.5
    with server.frozen(only_first=only_first):
        yield f"{'the first process of ' * only_first}{name} is stopped by SIGSTOP"


@contextmanager
def _read_only(site: Site, chance: random.Random) -> Iterator[str]:
    server, name = _running_server(site, chance)
    with server.read_only():
        yield f"{name} is read-only"


@contextmanager
def _disk(site: Site, chance: random.Random) -> Iterator[str]:
    server, name = _running_server(site, chance)
    with server.full_disk():
        yield f"the disk of {name} is full"


def _running_server(site: Site, chance: random.Random) -> tuple[DisturbedServer, str]:
    """Return one of the servers that commands use now, with its name."""
    server = chance.choice(site.servers)
    # Between two schedules, the embedded one of the runs is not needed.
    if not server.answers or (site.embedded and server is site.server and not (site.scheduling and site.running())):
        raise NotNow
    name = "the server" if not site.embedded else f"the {'runs' if server is site.server else 'samples'}' server"
    return server, name


@contextmanager
def _spool(site: Site, chance: random.Random) -> Iterator[str]:
    frozen = chance.random() < 0.5 and site.samples.alive
    ballast = site.second / "spool" / "ballast"
    with site.samples.frozen() if frozen else contextlib.nullcontext():
        try:
            fill(ballast)
            yield f"the spool's disk is full{', and the server stopped' if frozen else ''}"
        finally:
            ballast.unlink(missing_ok=True)


@contextmanager
def _clock(site: Site, chance: random.Random) -> Iterator[str]:
    seconds = chance.choice((-7200, 7200))  # longer than a campaign, or times would coincide
    site.set_clock(seconds)
    try:
        yield f"the clock is set by {seconds:+} s"
    finally:
        site.set_clock(0)


@contextmanager
def _network(site: Site, _: random.Random) -> Iterator[str]:
    site.set_network(False)
    try:
        yield "a host's network is unreachable"
    finally:
        site.set_network(True)


@dataclass(frozen=True)
class Fault:
    """Kind of fault, with bounds of its random duration in seconds."""

    begin: Callable[[Site, random.Random], AbstractContextManager[str]]
    least: float
    most: float
    whole: bool = False  # also in a short campaign


FAULTS = {
    "collector": Fault(_collector, 0, 6),
    "measuring": Fault(_measuring, 30, 30, whole=True),
    "scheduler": Fault(_scheduler, 0, 8),
    "supervisor": Fault(_supervisor, 0, 0),
    "server": Fault(_server, 0, 10),
    "backend": Fault(_backend, 0, 0),
    "frozen": Fault(_frozen, 30, 30),
    "read_only": Fault(_read_only, 20, 20),
    "disk": Fault(_disk, 5, 20),
    "spool": Fault(_spool, 20, 30),
    "clock": Fault(_clock, 10, 40),
    "network": Fault(_network, 60, 60),
}


def measure(
    minutes: float = 60.0,
    server: Kind | None = None,
    seed: int | None = None,
    only: str | None = None,
    embedded: bool = False,
) -> dict[str, float | str]:
    """Return the number of each fault, of checks, and the findings.

    With `embedded`, runs and samples are in the embedded servers of two homes, which only commands start.
    """
    seed = random.randrange(2**32) if seed is None else seed
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="bench-faults-"))
    folder.chmod(0o755)  # the server may run as another user
    workloads = 30 if minutes >= _FULL_MINUTES else max(3, round(2 * minutes))
    kind = server or Kind.POSTGRESQL
    if embedded and server is not None:
        raise BadRequest("--embedded and --server exclude each other")
    site = Site(folder, None if embedded else DisturbedServer(kind.make(folder / "server")), workloads, chance)
    results: dict[str, float | str] = {"seed": float(seed), "minutes": minutes}
    for sent in (signal.SIGINT, signal.SIGTERM):  # a shell's background processes ignore the first
        signal.signal(sent, signal.default_int_handler)
    try:
        site.open(timescaledb=not embedded and kind in (Kind.TIMESCALEDB, Kind.STOCK_TIMESCALEDB))
        campaign = Campaign(site, chance, minutes * 60, only.split(",") if only else None)
        campaign.run()
        results |= {f"{name}_faults": float(campaign.made[name]) for name in FAULTS}
        results |= {f"{name}_left_out": why for name, why in site.left_out.items()}
        results |= percentiles(campaign.recoveries)
        results |= audit(site, campaign.excused)
        for number, (at, problem) in enumerate(site.problems, 1):
            results[f"finding_{number}"] = f"{problem} ({campaign.before(at)})"
    finally:
        site.close()
    if site.problems:
        results["kept"] = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return {**results, "findings": float(len(site.problems))}


class Campaign:
    """Sequence of faults during the campaign; the last schedule then ends by itself."""

    def __init__(self, site: Site, chance: random.Random, seconds: float, only: list[str] | None) -> None:
        self.made: Counter[str] = Counter()
        self.recoveries: list[tuple[str, float]] = []
        self._site, self._chance = site, chance
        self._began = uptime()
        self._until = self._began + seconds
        self._share = min(seconds / 60 / _FULL_MINUTES, 1.0)
        self._names = [name for name in only or FAULTS if name not in site.left_out]
        self._deck: list[str] = []
        self._log: list[tuple[float, str, str]] = []

    def run(self) -> None:
        """Run the campaign."""
        active = contextlib.ExitStack()
        ends = next_at = self._began + self._pause()
        disturbed = False
        recovery: Recovery | None = None
        with active:
            while self._site.tick(more=uptime() < self._until):
                now = uptime()
                if disturbed and now >= ends:
                    active.close()
                    self._site.count_lost()
                    recovery = Recovery(self._site, uptime())
                    disturbed, next_at = False, uptime() + self._pause()
                elif recovery is not None:
                    if recovery.ended():
                        self.recoveries.append((self._log[-1][1], recovery.seconds))
                        recovery, next_at = None, max(next_at, uptime())
                elif not disturbed and next_at <= now < self._until:
                    lasts = self._begin(active)
                    disturbed, ends = lasts is not None, now + (lasts or 0)
                    next_at = now + 1
                time.sleep(0.1)

    def before(self, at: float) -> str:
        """Return the last fault before a time."""
        made = [f"{moment - self._began:.0f} s: {what}" for moment, _, what in self._log if moment <= at]
        return f"at {at - self._began:.0f} s, after {made[-1]}" if made else "before any fault"

    def excused(self, since: float, until: float) -> bool:
        """Return whether scrapes were impossible between two times: the collector was killed, or a network unreachable."""
        names = ("collector", "network")
        return any(name in names and since - 5 <= at <= until + 5 for at, name, _ in self._log)

    def _begin(self, active: contextlib.ExitStack) -> float | None:
        """Start the next possible fault; return its duration."""
        if not self._deck:
            self._deck = self._chance.sample(self._names, len(self._names))
        for name in self._deck:
            fault = FAULTS[name]
            at = uptime()
            try:
                what = active.enter_context(fault.begin(self._site, self._chance))
            except NotNow:
                continue
            self._deck.remove(name)
            self.made[name] += 1
            self._log.append((at, name, what))
            lasts = self._chance.uniform(fault.least, fault.most) * (1.0 if fault.whole else self._share)
            if name == "server" and self._site.embedded:
                lasts = 0.0  # its recovery counts from the kill
            print(f"{at - self._began:7.1f} s  {what}, for {lasts:.1f} s", file=sys.stderr, flush=True)
            return lasts
        return None

    def _pause(self) -> float:
        return self._chance.uniform(4, 16) * max(self._share, 0.5)
