"""Slowdowns of configurations, from repetitions of the same concurrent runs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from hypergauge.insight.sharing.concurrent_runs import ConcurrentRuns, Configuration, LeftOut, configuration
from hypergauge.insight.sharing.interference import Against, Alone, Disturbance, Member, OtherWork, Set, Slowdown
from hypergauge.insight.sharing.progress import Progress
from hypergauge.insight.sharing.ratio import Ratio, ratio
from hypergauge.sql.queries.contention import Contention
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["Measured", "sets_of", "undisturbed", "uneven"]

# Runs start together but end at different moments. Up to this share without overlap, a slowdown is off by that share at most.
_ALL_BUT = 0.05
# Largest difference of work for a comparison of whole runs: a training with a time limit does less beside others. See `as_much`
# in SQL.
_AS_MUCH = 0.02

# A configuration with the collocation of its row.
_Kind = tuple[Configuration, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """Facts about runs beyond their times, by id.

    Attributes
    ----------
    progress
        Progress by steps or epochs.
    energy
        Joules of their whole GPUs, idle included.
    counts
        Numbers of ``steps`` and ``epochs``.
    cpu
        Seconds of CPU time.
    contention
        Use of their hosts and GPUs by other programs.
    """

    progress: Mapping[str, Progress] = field(default_factory=dict)
    energy: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    contention: Mapping[str, Contention] = field(default_factory=dict)


_NOTHING = Measured()


def sets_of(
    concurrent: Sequence[ConcurrentRuns], measured: Measured = _NOTHING, *, paced: bool = False
) -> tuple[Set, ...]:
    """Return the sets, each against its configurations alone.

    Parameters
    ----------
    paced
        Whether times are those of a step, not of whole runs.
    """
    solos: dict[_Kind, list[RunInfo]] = {}
    groups: dict[tuple[_Kind, ...], list[ConcurrentRuns]] = {}
    for repetition in concurrent:
        kinds = _kinds(repetition)
        if len(kinds) == 1:
            solos.setdefault(kinds[0], []).append(repetition.runs[0])
        else:
            groups.setdefault(kinds, []).append(repetition)
    names = _names(concurrent)
    return tuple(_Group(names, solos, some, measured, paced).as_set() for some in groups.values())


def undisturbed(
    concurrent: Sequence[ConcurrentRuns], contention: Mapping[str, Contention]
) -> tuple[tuple[ConcurrentRuns, ...], tuple[LeftOut, ...]]:
    """Return the repetitions that other programs did not disturb, and the others.

    Where a set was disturbed in all of its repetitions, all of them stay: its verdict then names the disturbance.
    """
    worst = [max(repetition.runs, key=lambda run: _delay(contention, [run])) for repetition in concurrent]
    disturbed = [run.run_id in contention and contention[run.run_id].disturbed for run in worst]
    quiet = {_kinds(repetition) for repetition, is_out in zip(concurrent, disturbed, strict=True) if not is_out}
    kept, out = [], []
    for repetition, run, is_out in zip(concurrent, worst, disturbed, strict=True):
        if is_out and _kinds(repetition) in quiet:
            labels = tuple(one.full_label for one in repetition.runs)
            out.append(LeftOut(labels, (_reason(run, contention[run.run_id]),)))
        else:
            kept.append(repetition)
    return tuple(kept), tuple(out)


def _reason(run: RunInfo, contention: Contention) -> Reason:
    values = {name: getattr(contention, name) for name in ("used", "services", "cores", "gpu_share")}
    return Reason("other_programs", {"run": run.full_label, **values})


def uneven(repetition: ConcurrentRuns) -> bool:
    """Return whether one of its runs lasted longer than another."""
    return min(_share(repetition, run) for run in repetition.runs) < 1 - _ALL_BUT


def _share(repetition: ConcurrentRuns, run: RunInfo) -> float:
    begins, ends = repetition.together(run)
    return (ends - begins) / (run.duration or ends - begins)


def _kind(run: RunInfo) -> _Kind:
    return configuration(run), run.collocation or "-"


def _kinds(repetition: ConcurrentRuns) -> tuple[_Kind, ...]:
    return tuple(sorted(map(_kind, repetition.runs), key=repr))


def _names(concurrent: Iterable[ConcurrentRuns]) -> dict[Configuration, str]:
    """Return the name of each configuration, with its first run if the name is ambiguous."""
    first: dict[Configuration, RunInfo] = {}
    for repetition in concurrent:
        for run in repetition.runs:
            first.setdefault(configuration(run), run)
    shared = Counter(run.name for run in first.values())
    return {one: run.name if shared[run.name] == 1 else f"{run.name} ({run.full_label})" for one, run in first.items()}


@dataclass(frozen=True, slots=True)
class _Group:
    """The `repetitions` of one set, and the runs alone for comparison."""

    names: Mapping[Configuration, str]
    solos: Mapping[_Kind, Sequence[RunInfo]]
    repetitions: Sequence[ConcurrentRuns]
    measured: Measured
    paced: bool

    def as_set(self) -> Set:
        """Return the set."""
        first = self.repetitions[0]
        order = list(self.names)
        kinds = sorted(set(map(_kind, first.runs)), key=lambda kind: (order.index(kind[0]), kind[1]))
        mixed = len({collocation for _, collocation in kinds}) > 1
        members = [self._member(kind, mixed=mixed) for kind in kinds]
        return Set(
            sharing=_sharing(first),
            workloads=tuple(dict.fromkeys(repetition.workload for repetition in self.repetitions)),
            repetitions=len(self.repetitions),
            members=tuple(members),
            makespan=self._against([repetition.seconds for repetition in self.repetitions], lambda run: run.duration),
            energy=self._against(
                [self._energy(repetition) for repetition in self.repetitions],
                lambda run: self.measured.energy.get(run.run_id),
            ),
            work=dict(self._work()),
            disturbance=self._disturbance(kinds),
        )

    def _runs(self, kind: _Kind) -> list[list[RunInfo]]:
        """Return the runs of a configuration in each repetition."""
        return [[run for run in repetition.runs if _kind(run) == kind] for repetition in self.repetitions]

    def _alone(self, kind: _Kind, *, as_much: bool = True) -> tuple[str, Sequence[RunInfo]]:
        """Return the runs alone, by default those that did as much work: on whole devices, or else on such an instance."""
        for collocation in ("-", kind[1]):
            if solos := self._alone_on(kind, collocation, as_much=as_much):
                return collocation, solos
        return kind[1], ()

    def _alone_on(self, kind: _Kind, collocation: str, *, as_much: bool) -> Sequence[RunInfo]:
        solos = self.solos.get((kind[0], collocation), ())
        return [run for run in solos if self._is_as_much(kind, run)] if as_much else solos

    def _is_as_much(self, kind: _Kind, solo: RunInfo) -> bool:
        """Return whether a run alone did as much work as those beside others; unknown work counts as equal."""
        if (work := self._work_of(kind, solo)) is None:
            return True
        _, mine, theirs = work
        return abs(mine - theirs) <= _AS_MUCH * max(mine, theirs)

    def _work_of(self, kind: _Kind, solo: RunInfo) -> tuple[str, float, float] | None:
        """Return what runs count, with its mean beside others and its number alone; ``None`` where that is unknown."""
        counts = self.measured.counts
        for what in ("steps", "epochs"):
            mine = [counts.get(run.run_id, {}).get(what, 0) for run in chain.from_iterable(self._runs(kind))]
            theirs = counts.get(solo.run_id, {}).get(what, 0)
            if all(mine) and theirs:
                return what, statistics.fmean(mine), theirs
        return None

    def _other_work(self, kind: _Kind) -> OtherWork | None:
        """Return the runs alone that did other work."""
        solos = [*self.solos.get((kind[0], "-"), ()), *(self.solos.get(kind, ()) if kind[1] != "-" else ())]
        works = {
            run.full_label: work
            for run in solos
            if not self._is_as_much(kind, run) and (work := self._work_of(kind, run)) is not None
        }
        if not works:
            return None
        [(what, beside, _), *_] = works.values()
        return OtherWork(tuple(works), what, beside, statistics.fmean(alone for _, _, alone in works.values()))

    def _member(self, kind: _Kind, *, mixed: bool) -> Member:
        runs = self._runs(kind)
        name = self.names[kind[0]]
        shares = [
            _share(repetition, run) for repetition, some in zip(self.repetitions, runs, strict=True) for run in some
        ]
        together = 1.0 if min(shares) >= 1 - _ALL_BUT else min(shares)
        # The time of a step is comparable whatever the number of steps.
        alone = self._alone(kind, as_much=not self.paced)
        on_instance = self._alone_on(kind, kind[1], as_much=not self.paced) if kind[1] != alone[0] else ()
        own = (kind[1], on_instance) if on_instance else None
        counted = chain(chain.from_iterable(runs), alone[1], own[1] if own else ())
        known = all(run.run_id in self.measured.progress for run in counted)
        over = "together" if known and (self.paced or together < 1) else "whole"
        labels = tuple(run.full_label for some in runs for run in some)
        return Member(
            f"{name} {kind[1]}" if mixed and kind[1] != "-" else name, name, kind[1], len(runs[0]), labels, over, together,
            self._slowdown(runs, *alone, over), own and self._slowdown(runs, *own, over),
            None if self.paced else self._other_work(kind), kind[0].simulated, bool(kind[0].profilers),
        )  # fmt: skip

    def _slowdown(
        self, runs: Sequence[Sequence[RunInfo]], collocation: str, solos: Sequence[RunInfo], over: str
    ) -> Slowdown | None:
        if not solos or (self.paced and over == "whole"):
            return None
        times = [
            self._times(repetition, some, solos, over) for repetition, some in zip(self.repetitions, runs, strict=True)
        ]
        if not all(min(mine, *alone) > 0 for mine, alone in times):
            return None
        # Repetitions may cover different parts of the work, so times are scaled to the mean part.
        parts = [statistics.fmean(alone) for _, alone in times]
        size = statistics.fmean(parts)
        mine = [size * mine / part for (mine, _), part in zip(times, parts, strict=True)]
        theirs = [
            statistics.fmean(size * alone[at] / part for (_, alone), part in zip(times, parts, strict=True))
            for at in range(len(solos))
        ]
        alone = Alone(collocation, tuple(run.full_label for run in solos))
        return Slowdown(alone, statistics.fmean(mine), size, ratio(mine, [theirs]), self._cpu(runs, solos))

    def _cpu(self, runs: Sequence[Sequence[RunInfo]], solos: Sequence[RunInfo]) -> Ratio | None:
        """Return the ratio of CPU times of whole runs; ``None`` unless all are known."""
        cpu = self.measured.cpu
        if not all(cpu.get(run.run_id) for run in chain(chain.from_iterable(runs), solos)):
            return None
        mine = [statistics.fmean(cpu[run.run_id] for run in repetition) for repetition in runs]
        return ratio(mine, [[cpu[run.run_id] for run in solos]])

    def _disturbance(self, kinds: Iterable[_Kind]) -> Disturbance:
        """Return what other programs may have cost; of a configuration, the mean of its runs counts."""
        contention = self.measured.contention
        alone, beside, shares = [0.0], [0.0], []
        for kind in kinds:
            mine, solos = list(chain.from_iterable(self._runs(kind))), self._alone(kind)[1]
            beside.append(_delay(contention, mine))
            alone.append(_delay(contention, solos))
            if theirs := [run.duration for run in solos if run.duration]:
                alone.append(1 - statistics.fmean(run.duration or 0.0 for run in mine) / statistics.fmean(theirs))
            shares += [contention[run.run_id] for run in (*mine, *solos) if run.run_id in contention]
        most = {
            name: max((value for one in shares if (value := getattr(one, name)) is not None), default=None)
            for name in ("used", "services", "cores", "gpu_share")
        }
        unmeasured = {where for one in shares for where in one.unmeasured}
        return Disturbance(max(alone), max(beside), **most, unmeasured=tuple(sorted(unmeasured)))

    def _times(
        self, repetition: ConcurrentRuns, runs: Sequence[RunInfo], solos: Sequence[RunInfo], over: str
    ) -> tuple[float, list[float]]:
        """Return how long the runs of one configuration took in a repetition, and each solo run for the same work.

        Without work, the time is 0.
        """
        if over == "whole":
            return statistics.fmean(run.duration or 0.0 for run in runs), [run.duration or 0.0 for run in solos]
        progress = self.measured.progress
        windows = [(progress[run.run_id], *repetition.together(run)) for run in runs]
        alone = [progress[run.run_id] for run in solos]
        if self.paced:
            paces = [one.pace(begins, ends) for one, begins, ends in windows]
            return min(paces) and statistics.fmean(paces), [one.pace(0.0, one.duration) for one in alone]
        mine = statistics.fmean(ends - begins for _, begins, ends in windows)
        return mine, [
            statistics.fmean(one.elsewhere(ends, solo) - one.elsewhere(begins, solo) for one, begins, ends in windows)
            for solo in alone
        ]

    def _against(self, together: Sequence[float | None], value: Callable[[RunInfo], float | None]) -> Against | None:
        """Compare a value of the repetitions with the sum of the runs alone."""
        counts = Counter(map(_kind, self.repetitions[0].runs))
        alone = [[value(run) for run in self._alone(kind)[1]] for kind in counts]
        known = [value for value in together if value]
        samples = [
            [count * value for value in some if value] for some, count in zip(alone, counts.values(), strict=True)
        ]
        if len(known) < len(together) or any(
            not one or len(one) < len(some) for one, some in zip(samples, alone, strict=True)
        ):
            return None
        return Against(statistics.fmean(known), sum(map(statistics.fmean, samples)), ratio(known, samples))

    def _energy(self, repetition: ConcurrentRuns) -> float | None:
        """Return the energy of a repetition's GPUs; a shared GPU counts once, by its longest run."""
        by_devices: dict[str, list[RunInfo]] = {}
        for run in repetition.runs:
            by_devices.setdefault(run.devices, []).append(run)
        if any(set(one.split("+")) & set(other.split("+")) for one, other in combinations(by_devices, 2)):
            return None  # with partly shared GPUs, the energy of the rest is unknown
        longest = [max(runs, key=lambda run: run.duration or 0.0) for runs in by_devices.values()]
        known = [self.measured.energy[run.run_id] for run in longest if run.run_id in self.measured.energy]
        return sum(known) if len(known) == len(longest) else None

    def _work(self) -> Iterator[tuple[str, float]]:
        runs = [run for repetition in self.repetitions for run in repetition.runs]
        yield "runs", len(runs) / len(self.repetitions)
        for what in ("steps", "epochs"):
            counts = [self.measured.counts.get(run.run_id, {}).get(what, 0) for run in runs]
            if all(counts):
                yield what, sum(counts) / len(self.repetitions)


def _delay(contention: Mapping[str, Contention], runs: Iterable[RunInfo]) -> float:
    """Return the mean share of their time that other programs are known to have cost runs at most.

    It is 0 where it is unknown, which `Contention.unmeasured` tells.
    """
    delays = [one.delay for run in runs if (one := contention.get(run.run_id)) and one.delay is not None]
    return statistics.fmean(delays) if delays else 0.0


def _sharing(repetition: ConcurrentRuns) -> str:
    """Return how the runs of a repetition share devices."""
    ways = {run.collocation or "-" for run in repetition.runs}
    if ways != {"-"}:
        return "+".join(sorted("naive" if way == "-" else way for way in ways))
    devices = [set(filter(None, run.devices.split("+"))) for run in repetition.runs]
    return "naive" if any(one & other for one, other in combinations(devices, 2)) else "host"
