"""Quiet host: a warning about other programs, and the wait for their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from hypergauge.core.system.other_processes import OtherUse
from hypergauge.scheduler.plan.quiet_host import Disturbance, QuietHost


@dataclass
class Host:
    """Host with two cores whose other programs use the cores of `uses`, one for each measurement, then the last."""

    uses: list[float]
    gpus: list[Mapping[str, Sequence[str]]] = field(default_factory=lambda: [{}])
    now: float = 1000.0
    since: float = 999.0
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.now - self.since

    def restart(self) -> None:
        self.since = self.now

    def other_use(self, seconds: float | None = None) -> OtherUse:
        used = self.uses.pop(0) if len(self.uses) > 1 else self.uses[0]
        return OtherUse(used, 2, (("ffmpeg", used),) if used else ())

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def quiet_host(self, limit: float | None = None, allowed: float | None = None) -> QuietHost:
        return QuietHost(self, limit, allowed, sleep=self.sleep, clock=lambda: self.now)  # type: ignore[arg-type]

    def start(self, quiet_host: QuietHost) -> None:
        quiet_host.before_workload(
            lambda: self.gpus.pop(0) if len(self.gpus) > 1 else self.gpus[0], self.notes.append, self.warnings.append
        )


@pytest.mark.parametrize(
    ("used", "cores", "allowed", "quiet"),
    [
        (0.3, 2, None, True), (0.31, 2, None, False), (3.2, 64, None, True), (3.3, 64, None, False), (1.0, 2, 1.0, True),
        (0.01, 2, 0.0, False), (0.0, 2, 0.0, True),
    ],
)  # fmt: skip
def test_a_host_is_quiet_up_to_some_cores(used: float, cores: int, allowed: float | None, quiet: bool) -> None:
    assert Disturbance(OtherUse(used, cores), allowed=allowed).quiet is quiet


@pytest.mark.parametrize(
    ("used", "gpus", "text"),
    [
        (1.8, {}, "other processes use 1.8 of 2 cores (ffmpeg 1.0, cc1plus 0.5, git 0.2 and 1 more)"),
        (0.1, {"GPU 0": ["python3"]}, "GPU 0 has python3"),
        (1.8, {"GPU 0": ["a", "b", "c", "d"]},
         "other processes use 1.8 of 2 cores (ffmpeg 1.0, cc1plus 0.5, git 0.2 and 1 more); GPU 0 has a, b, c and 1 more"),
    ],
)  # fmt: skip
def test_programs_are_named(used: float, gpus: Mapping[str, Sequence[str]], text: str) -> None:
    programs = (("ffmpeg", 1.0), ("cc1plus", 0.5), ("git", 0.2), ("sh", 0.1))
    found = Disturbance(OtherUse(used, 2, programs), gpus)
    assert (found.quiet, str(found)) == (False, text)


def test_a_busy_host_is_named_once_before_the_first_workload() -> None:
    host = Host([1.8])
    quiet_host = host.quiet_host()
    host.start(quiet_host)
    host.start(quiet_host)
    assert host.warnings == [
        "other processes use 1.8 of 2 cores (ffmpeg 1.8): the times of runs will say little; --quiet-host waits"
    ]
    assert (host.now, host.notes) == (1000, []), "it does not wait"


def test_a_quiet_host_needs_no_words_and_no_time() -> None:
    host = Host([0.1])
    host.start(host.quiet_host())
    host.start(host.quiet_host(limit=300))
    assert (host.warnings, host.notes) == ([], [])


def test_a_measurement_is_long_enough_to_mean_something() -> None:
    host = Host([0.1], since=1000.0)
    host.start(host.quiet_host())
    assert host.now == pytest.approx(1000.1)


def test_each_workload_waits_until_other_programs_have_ended() -> None:
    host = Host([1.8, 1.8, 0.0, 0.9, 0.0])
    quiet_host = host.quiet_host(limit=300)
    host.start(quiet_host)
    host.start(quiet_host)
    assert host.notes == [
        "waits for a quiet host, 300 s at most: other processes use 1.8 of 2 cores (ffmpeg 1.8)",
        "has a quiet host after 3.0 s",
        "waits for a quiet host, 300 s at most: other processes use 0.9 of 2 cores (ffmpeg 0.9)",
        "has a quiet host after 2.0 s",
    ]
    assert host.warnings == []


def test_the_wait_is_bounded() -> None:
    host = Host([1.8])
    host.start(host.quiet_host(limit=20))
    assert host.now == 1020
    assert host.warnings == [
        "starts after 20 s on a host that is not quiet: other processes use 1.8 of 2 cores (ffmpeg 1.8)"
    ]


def test_a_program_on_a_gpu_is_waited_for() -> None:
    host = Host([0.0], gpus=[{"GPU 0": ["python3"]}, {}])
    host.start(host.quiet_host(limit=300))
    assert host.notes[0] == "waits for a quiet host, 300 s at most: GPU 0 has python3"
    assert host.notes[1].startswith("has a quiet host after ")
