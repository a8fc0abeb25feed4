"""Recommendation about collocation, for or against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.sharing.concurrent_runs import ConcurrentRuns, LeftOut, concurrent_runs
from hypergauge.insight.sharing.interference import Interference, Set
from hypergauge.insight.sharing.progress import Progress, progress_of
from hypergauge.insight.sharing.slowdowns import Measured, sets_of, uneven
from hypergauge.sql.queries.neighbours import strangers
from hypergauge.sql.queries.report import steps
from hypergauge.sql.queries.summaries import BoardEnergy, board_energy
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["METRICS", "advice", "interference", "left_out", "remarks", "verdict"]

# What slowdowns can be of, and the axis that this takes.
METRICS = {"duration": None, "step_time": "step", "epoch_time": "epoch"}
# Of a run's time, how much must be measured, once.
_MEASURED = (0.9, 1.1)


def interference(
    connection: Connection, selectors: Sequence[str], *, metric: str = "duration", simulated: bool = False
) -> Interference:
    """Return what running side by side cost in the workloads that selectors name, over all repetitions.

    Parameters
    ----------
    metric
        One of `METRICS`.
    simulated
        Whether the energy of simulated GPUs counts.

    Raises
    ------
    BadRequest
        There is no such metric, or a selector names nothing.
    """
    if metric not in METRICS:
        raise BadRequest(f"a slowdown is of {', '.join(METRICS)}, not of {metric!r}{did_you_mean(metric, METRICS)}")
    # A run that is selected without those beside it would seem to have been alone.
    workloads = dict.fromkeys(f"{run.experiment_id}/{run.workload}" for run in select_runs(connection, selectors))
    runs = select_runs(connection, list(workloads), every_attempt=True)
    sittings, left_out = concurrent_runs(runs, strangers(connection, [run.run_id for run in runs]))
    measured = _measured(connection, sittings, METRICS[metric], simulated=simulated)
    return Interference(metric, sets_of(sittings, measured, paced=metric != "duration"), left_out)


def _measured(
    connection: Connection, sittings: Iterable[ConcurrentRuns], align: str | None, *, simulated: bool
) -> Measured:
    runs = [run for sitting in sittings for run in sitting.runs]
    ids = [run.run_id for run in runs]
    counts: dict[str, dict[str, int]] = {}
    for one in steps(connection, ids):
        counts.setdefault(one.run_id, {})[f"{one.kind}s"] = one.n
    progress: dict[str, Progress] = {}
    if align is not None:
        progress = progress_of(connection, runs, align)
    elif any(map(uneven, sittings)):
        progress = progress_of(connection, runs, "step")
        progress |= progress_of(connection, [run for run in runs if run.run_id not in progress], "epoch")
    return Measured(progress, _energy(connection, runs, simulated=simulated), counts)


def _energy(connection: Connection, runs: Sequence[RunInfo], *, simulated: bool) -> Mapping[str, float]:
    """Return by run what its boards used, where that was measured from its beginning to its end."""
    found: dict[str, list[BoardEnergy]] = {}
    for one in board_energy(connection, [run.run_id for run in runs if simulated or not run.simulated]):
        found.setdefault(one.run_id, []).append(one)
    energy = {}
    least, most = _MEASURED
    for run in runs:
        scopes = found.get(run.run_id, [])
        if sum(one.seconds for one in scopes) > most * (run.duration or 0.0):
            # A board that is measured as a whole and again for each of its instances is not two.
            scopes = [max(scopes, key=lambda one: one.seconds)]
        if scopes and sum(one.seconds for one in scopes) >= least * (run.duration or 0.0):
            energy[run.run_id] = sum(one.joules for one in scopes)
    return energy


def verdict(found: Interference) -> Iterator[str]:
    """Yield a sentence for each configuration beside others that was also there alone, and one for each set of such."""
    for one in found.sets:
        if one.makespan is None:
            continue
        for member in one.members:
            if (slow := member.slowdown) is not None:
                part = " for as much" if member.over == "together" else ""
                yield (
                    f"{_listed(member.runs)} {member.name}: {slow.seconds:.1f} s beside others, {slow.alone_seconds:.1f} s "
                    f"alone{part} ({_listed(slow.alone.runs)}): {_percent(slow.ratio.value - 1)}"
                )
        yield (
            f"Workload {', '.join(one.workloads)} took {one.makespan.together:.1f} s, its runs one after the other "
            f"{one.makespan.one_by_one:.1f} s. {_JUDGEMENTS[one.judgement or '']}: {_percent(one.makespan.ratio.value - 1)}."
        )


_JUDGEMENTS = {
    "collocate": "Collocation paid",
    "apart": "Collocation did not pay",
    "even": "It was even",
    "unsure": "Its repetitions differ too much to tell",
}


def remarks(found: Interference) -> Iterator[str]:
    """Yield a sentence for each thing without which the figures would mislead."""
    for one in found.sets:
        where = f"{one.name} ({', '.join(one.workloads)})"
        for member in one.members:
            slow = member.slowdown
            if slow is None and found.metric == "duration":
                yield f"{member.configuration} was never alone: nothing is known of what {where} cost it"
            elif slow is None:
                yield f"{member.configuration} logs no {found.metric.removesuffix('_time')}s in {where}, or none alone"
            elif slow.alone.collocation != "-":
                yield f"{where}: {member.configuration} was alone on {slow.alone.collocation} only, not on the whole of it"
        yield from _few(where, one)
    yield from _diluted(found)
    yield from map(left_out, found.left_out if found.sets else ())


def _few(where: str, one: Set) -> Iterator[str]:
    once = [member.name for member in one.members if member.slowdown and len(member.slowdown.alone.runs) < 2]
    if one.repetitions < 2:
        yield f"{where} has one repetition, and so no interval"
    elif once:
        yield f"{where} has no interval: alone there is one repetition of {', '.join(once)}"


def _diluted(found: Interference) -> Iterator[str]:
    diluted = [
        f"{member.name} in {one.name} ({member.together:.0%})"
        for one in found.sets
        for member in one.members
        if member.slowdown is not None and member.diluted
    ]
    if diluted:
        yield (
            f"over the whole run, though all were there for a part of it only, and so too small: {_listed(diluted, 8)}; "
            "of runs that track steps it is over that part"
        )


def left_out(one: LeftOut) -> str:
    """Return which runs cannot be judged, and why."""
    return f"left out: {one.reason}" if len(one.runs) == 1 else f"left out: {', '.join(one.runs)} ({one.reason})"


def advice(found: Interference) -> str | None:
    """Return in a line what to collocate and what not, the best first; ``None`` where nothing is known."""
    groups: dict[str, list[str]] = {judgement: [] for judgement in _ADVICE}
    known = [(one.makespan.ratio.value, one) for one in found.sets if one.makespan is not None]
    for value, one in sorted(known, key=lambda pair: pair[0]):
        sharing = "" if one.sharing == "naive" else f", {one.sharing}"
        groups[one.judgement or ""].append(f"{one.name} ({value - 1:+.0%}{sharing})")
    return " ".join(f"{_ADVICE[key]}: {'; '.join(some)}." for key, some in groups.items() if some) or None


_ADVICE = {
    "collocate": "Collocate",
    "apart": "Do not collocate",
    "even": "No difference",
    "unsure": "Undecided",
}


def _listed(words: Sequence[str], most: int = 2) -> str:
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def _percent(change: float) -> str:
    """Return a relative change in words."""
    return f"{abs(change):.0%} {'longer' if change > 0 else 'shorter'}" if abs(change) >= 0.005 else "no difference"
