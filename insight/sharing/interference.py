"""Interference: slowdowns of collocated configurations against the same configurations alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hypergauge.insight.sharing.concurrent_runs import LeftOut
from hypergauge.insight.sharing.ratio import CONFIDENCE, Ratio
from hypergauge.sql.queries.notices import Fact

__all__ = ["Against", "Alone", "Disturbance", "Interference", "Member", "OtherWork", "Set", "Slowdown"]

# Noise of a slowdown without repetitions: the first run reads its files from disk.
_NOISE = 0.05


@dataclass(frozen=True, slots=True)
class Alone:
    """A configuration alone.

    Attributes
    ----------
    collocation
        ``-`` for whole devices, else the MIG profile or MPS limit.
    runs
        Their labels.
    """

    collocation: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Slowdown of a configuration beside others, relative to alone.

    Attributes
    ----------
    seconds, alone_seconds
        Means of both over the same work.
    cpu
        Ratio of the CPU times of whole runs. It grows with contention for caches and memory, but not with waiting for a core.
    """

    alone: Alone
    seconds: float
    alone_seconds: float
    ratio: Ratio
    cpu: Ratio | None = None

    @property
    def faster(self) -> bool:
        """Return whether the runs beside others were faster than alone, beyond the noise."""
        return self.ratio.value < 1 - _NOISE if self.ratio.high is None else self.ratio.high < 1


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Runs of a configuration alone that did other work than beside others, which no time or energy is compared with.

    Attributes
    ----------
    runs
        Their labels.
    what
        ``steps`` or ``epochs``.
    beside, alone
        Mean numbers of them.
    """

    runs: tuple[str, ...]
    what: str
    beside: float
    alone: float


@dataclass(frozen=True, slots=True)
class Member:
    """A configuration in a set.

    Attributes
    ----------
    name, configuration
        Display name, with the collocation if the set has several; and without it.
    collocation
        As in the experiment file: ``-``, ``MPS``, ``MPS:50``, ``3g.20gb``.
    count
        Number of its runs in the set.
    runs
        Labels of its runs, in all repetitions.
    over
        Basis of its times: the ``whole`` run, or the overlap with all others (``together``).
    together
        Smallest share of a run that overlaps with all others.
    slowdown
        Against the configuration alone on whole devices, or else alone on such an instance. ``None`` if it was never alone, or
        did other work.
    on_instance
        Slowdown against the configuration alone on such an instance, if `slowdown` is against whole devices.
    other_work
        Runs alone that did other work, if any.
    """

    name: str
    configuration: str
    collocation: str
    count: int
    runs: tuple[str, ...]
    over: str
    together: float
    slowdown: Slowdown | None
    on_instance: Slowdown | None = None
    other_work: OtherWork | None = None
    simulated: bool = False
    profiled: bool = False

    @property
    def diluted(self) -> bool:
        """Return whether its times include parts with fewer neighbours."""
        return self.over == "whole" and self.together < 1


@dataclass(frozen=True, slots=True)
class Against:
    """A value of a set side by side, and of its runs one after the other: means and their ratio."""

    together: float
    one_by_one: float
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Use of the hosts by other programs, and the share of their time that it may have cost the runs of a set.

    Attributes
    ----------
    alone, beside
        Largest shares of time of a configuration, alone and beside others. A configuration that was faster beside others lost
        time alone.
    used, services, cores
        Most cores that other programs and services of hypergauge used, and cores of the hosts; ``None`` where not measured.
    gpu_share
        Largest share of time in which other processes used the GPUs; ``None`` where not measured.
    unmeasured
        Where others were not measured beside some of the runs: ``host``, ``gpu``.
    """

    alone: float = 0.0
    beside: float = 0.0
    used: float | None = None
    services: float | None = None
    cores: float | None = None
    gpu_share: float | None = None
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Set:
    """Concurrent configurations.

    Attributes
    ----------
    sharing
        ``naive`` for a GPU shared without isolation, ``host`` for runs without a common device, else ``MPS``, ``MPS:50``, MIG
        profiles, joined by ``+``.
    makespan
        In seconds; ``None`` if a configuration was never alone with as much work.
    energy
        Joules of the whole GPUs, idle included; ``None`` if unknown for one of them.
    work
        Numbers of ``runs``, and of ``steps`` and ``epochs`` if all runs track them.
    verdict
        Recommendation by makespan: ``collocate``, ``apart``, ``even``, ``unsure``, or ``disturbed`` where other programs may
        explain the change; ``None`` without a makespan.
    cause
        What disturbed it, as a clause.
    doubt
        What the verdict takes for granted, since it was not measured, as a clause.
    """

    sharing: str
    workloads: tuple[str, ...]
    repetitions: int
    members: tuple[Member, ...]
    makespan: Against | None
    energy: Against | None
    work: Mapping[str, float]
    disturbance: Disturbance = field(default_factory=Disturbance)
    verdict: str | None = None
    cause: str | None = None
    doubt: str | None = None

    @property
    def name(self) -> str:
        """Its configurations: ``narrow + wide``."""
        return " + ".join(member.name for member in self.members for _ in range(member.count))

    def beside(self, member: Member) -> str:
        """Return the configurations beside one of `member`."""
        names = [one.name for one in self.members for _ in range(one.count - (one is member))]
        return " + ".join(names)

    def rates(self, what: str) -> tuple[float, float] | None:
        """Return the rates of one kind of work: side by side, and one after the other."""
        if self.makespan is None:
            return None
        return self.work[what] / self.makespan.together, self.work[what] / self.makespan.one_by_one


@dataclass(frozen=True, slots=True)
class Interference:
    """Interference between configurations.

    Attributes
    ----------
    metric
        Metric of the slowdowns: ``duration``, ``step_time`` or ``epoch_time``.
    sets
        In order of first start.
    left_out
        Excluded runs.
    disturbed
        Facts of other programs that cost the runs much of their time, or may have, since they were not measured.
    """

    metric: str
    sets: tuple[Set, ...]
    left_out: tuple[LeftOut, ...]
    disturbed: tuple[Fact, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "metric": self.metric,
            "confidence": CONFIDENCE,
            "sets": [_set(one) for one in self.sets],
            "left_out": [one.as_dict() for one in self.left_out],
        }


def _set(one: Set) -> dict[str, Any]:
    return {
        "sharing": one.sharing,
        "name": one.name,
        "workloads": one.workloads,
        "repetitions": one.repetitions,
        "members": [_member(one, member) for member in one.members],
        "makespan_seconds": _against(one.makespan),
        "device_energy_joules": _against(one.energy),
        "throughput": {
            f"{what}_per_second": {"together": rates[0], "one_by_one": rates[1]}
            for what in one.work
            if (rates := one.rates(what))
        },
        "disturbance": asdict(one.disturbance),
        "verdict": one.verdict,
    }


def _member(one: Set, member: Member) -> dict[str, Any]:
    return {
        "configuration": member.configuration,
        "collocation": member.collocation,
        "beside": one.beside(member),
        "runs": member.runs,
        "over": member.over,
        "together": member.together,
        "diluted": member.diluted,
        "simulated": member.simulated,
        "profiled": member.profiled,
        "slowdown": _slowdown(member.slowdown),
        "slowdown_on_instance": _slowdown(member.on_instance),
    }


def _slowdown(found: Slowdown | None) -> dict[str, Any] | None:
    return (
        None
        if found is None
        else {
            **_ratio(found.ratio),
            "seconds": found.seconds,
            "alone_seconds": found.alone_seconds,
            "cpu_time": None if found.cpu is None else _ratio(found.cpu),
            "alone": {"collocation": found.alone.collocation, "runs": found.alone.runs},
        }
    )


def _against(found: Against | None) -> dict[str, Any] | None:
    return (
        None if found is None else {"together": found.together, "one_by_one": found.one_by_one, **_ratio(found.ratio)}
    )


def _ratio(found: Ratio) -> dict[str, Any]:
    return {"ratio": found.value, "low": found.low, "high": found.high}
