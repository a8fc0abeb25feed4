"""Recommendation for or against collocation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.core.listing import listed
from hypergauge.insight.sharing.concurrent_runs import ConcurrentRuns, LeftOut, concurrent_runs
from hypergauge.insight.sharing.interference import Interference, Member, Set, Slowdown
from hypergauge.insight.sharing.progress import Progress, progress_of
from hypergauge.insight.sharing.slowdowns import Measured, sets_of, undisturbed, uneven
from hypergauge.sql.queries.contention import Contention, contention, contention_facts, decisions, unmeasured_facts
from hypergauge.sql.queries.neighbours import other_runs
from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.queries.report import steps
from hypergauge.sql.queries.summaries import device_energy
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["METRICS", "advice", "facts", "interference", "left_out", "verdict"]

# Metrics of slowdowns, and the axis of each.
METRICS = {"duration": None, "step_time": "step", "epoch_time": "epoch"}
# Least share of a run's time with measured energy.
_MEASURED = 0.9


def interference(
    connection: Connection, selectors: Sequence[str], *, metric: str = "duration", simulated: bool = False
) -> Interference:
    """Return the cost of collocation in the selected workloads over all repetitions.

    Parameters
    ----------
    metric
        One of `METRICS`.
    simulated
        Whether the energy of simulated GPUs counts.

    Raises
    ------
    BadRequest
        The metric is unknown, or a selector names nothing.
    """
    if metric not in METRICS:
        raise BadRequest(f"a slowdown is of {', '.join(METRICS)}, not of {metric!r}{did_you_mean(metric, METRICS)}")
    # Whole workloads: without its neighbours, a run would seem to be alone.
    workloads = dict.fromkeys(f"{run.experiment_id}/{run.workload}" for run in select_runs(connection, selectors))
    runs = select_runs(connection, list(workloads), every_attempt=True)
    concurrent, left_out = concurrent_runs(runs, other_runs(connection, [run.run_id for run in runs]))
    contended = contention(connection, [run.run_id for one in concurrent for run in one.runs])
    concurrent, disturbed = undisturbed(concurrent, contended)
    measured = _measured(connection, concurrent, contended, METRICS[metric], simulated=simulated)
    others = contention_facts(connection, [run.run_id for one in concurrent for run in one.runs])
    sets = _decided(connection, sets_of(concurrent, measured, paced=metric != "duration"))
    unmeasured = unmeasured_facts(connection, _behind_verdicts(concurrent, sets))
    return Interference(metric, sets, (*left_out, *disturbed), (*others, *unmeasured))


def _behind_verdicts(concurrent: Iterable[ConcurrentRuns], sets: Iterable[Set]) -> list[str]:
    """Return the ids of the runs that a verdict compares."""
    members = [member for one in sets if one.verdict for member in one.members]
    labels = {run for member in members for run in member.runs}
    labels |= {run for member in members if member.slowdown for run in member.slowdown.alone.runs}
    return [run.run_id for one in concurrent for run in one.runs if run.full_label in labels]


def _decided(connection: Connection, sets: Sequence[Set]) -> tuple[Set, ...]:
    """Return the sets with their verdicts."""
    figures = [{**(asdict(each.makespan.ratio) if each.makespan else {}), **asdict(each.disturbance)} for each in sets]
    return tuple(
        replace(each, verdict=decision.verdict, cause=decision.cause, doubt=decision.doubt)
        for each, decision in zip(sets, decisions(connection, figures), strict=True)
    )


def _measured(
    connection: Connection, concurrent: Iterable[ConcurrentRuns], contended: Mapping[str, Contention], align: str | None, *,
    simulated: bool,
) -> Measured:  # fmt: skip
    runs = [run for one in concurrent for run in one.runs]
    ids = [run.run_id for run in runs]
    counts: dict[str, dict[str, int]] = {}
    for one in steps(connection, ids):
        counts.setdefault(one.run_id, {})[f"{one.kind}s"] = one.n
    progress: dict[str, Progress] = {}
    if align is not None:
        progress = progress_of(connection, runs, align)
    elif any(map(uneven, concurrent)):
        progress = progress_of(connection, runs, "step")
        progress |= progress_of(connection, [run for run in runs if run.run_id not in progress], "epoch")
    cpu = {run: one.cpu_seconds for run, one in contended.items() if one.cpu_seconds is not None}
    return Measured(progress, _energy(connection, runs, simulated=simulated), counts, cpu, contended)


def _energy(connection: Connection, runs: Sequence[RunInfo], *, simulated: bool) -> Mapping[str, float]:
    """Return the energy of whole GPUs by run, if measured from start to end."""
    durations = {run.run_id: run.duration or 0.0 for run in runs if simulated or not run.simulated}
    return {
        one.run_id: one.joules
        for one in device_energy(connection, list(durations))
        if one.seconds >= _MEASURED * durations[one.run_id]
    }


def verdict(found: Interference) -> Iterator[str]:
    """Yield a sentence for each configuration that also ran alone, and one for each set of these.

    Where other programs disturbed a set, its times stand without the changes that they seem to show.
    """
    for one in found.sets:
        if one.makespan is None:
            continue
        disturbed = one.verdict == "disturbed"
        for member in one.members:
            if (slow := member.slowdown) is not None:
                part = " for as much" if member.over == "together" else ""
                change = _cpu_change(slow) if disturbed else f": {_percent(slow.ratio.value - 1)}"
                yield (
                    f"{listed(member.runs, 2)} {member.name}: {slow.seconds:.1f} s beside others, {slow.alone_seconds:.1f} s "
                    f"alone{part} ({listed(slow.alone.runs, 2)}){change}"
                )
        reason = one.cause or "; ".join(filter(None, (_percent(one.makespan.ratio.value - 1), one.doubt)))
        yield (
            f"Workload {', '.join(one.workloads)} took {one.makespan.together:.1f} s, its runs one after the other "
            f"{one.makespan.one_by_one:.1f} s. {_VERDICTS[one.verdict or '']}: {reason}."
        )


def _cpu_change(slow: Slowdown) -> str:
    return "" if slow.cpu is None else f"; CPU time {slow.cpu.value - 1:+.0%}"


_VERDICTS = {
    "collocate": "Collocation paid",
    "apart": "Collocation did not pay",
    "even": "It was even",
    "unsure": "The repetitions differ too much to decide",
    "disturbed": "Undecided",
}


def facts(found: Interference) -> Iterator[Fact]:
    """Yield the facts without which the ratios would mislead."""
    if found.sets:
        yield from found.disturbed
    for one in found.sets:
        about = {"set": one.name, "workloads": one.workloads}
        never = [member for member in one.members if member.slowdown is None and member.other_work is None]
        if found.metric == "duration" and never:
            runs = [run for member in never for run in member.runs]
            yield Fact("never_alone", runs, {"configurations": [member.configuration for member in never], **about})
        for member in one.members:
            yield from _facts_of(member, found.metric, {"configuration": member.configuration, **about})
        once = [member.name for member in one.members if member.slowdown and len(member.slowdown.alone.runs) < 2]
        if one.repetitions < 2:
            yield Fact("one_repetition", values=about)
        elif once:
            yield Fact("one_repetition_alone", values={**about, "configurations": once})
    diluted = [
        {"configuration": member.name, "set": one.name, "share": member.together}
        for one in found.sets
        for member in one.members
        if member.slowdown is not None and member.diluted
    ]
    if diluted:
        yield Fact("diluted", values={"members": diluted})
    yield from map(left_out, found.left_out if found.sets else ())


def _facts_of(member: Member, metric: str, about: Mapping[str, Any]) -> Iterator[Fact]:
    if (other := member.other_work) is not None:
        counts = {"work": other.what, "beside": other.beside, "alone": other.alone}
        yield Fact("other_work", other.runs, {**about, **counts})
    slow = member.slowdown
    if slow is None:
        if metric != "duration":
            yield Fact("not_paced", member.runs, {**about, "paced_by": f"{metric.removesuffix('_time')}s"})
        return
    if slow.alone.collocation != "-":
        yield Fact("alone_on_part", slow.alone.runs, {**about, "collocation": slow.alone.collocation})
    if slow.faster:
        yield Fact("faster_than_alone", slow.alone.runs, {**about, "ratio": slow.ratio.value})


def left_out(one: LeftOut) -> Fact:
    """Return the fact that runs are excluded, with the reasons."""
    return Fact("not_compared", one.runs, {"reasons": [reason.as_dict() for reason in one.reasons]})


def advice(found: Interference) -> str | None:
    """Return the recommendation in a line, the best sets first; ``None`` without one."""
    groups: dict[str, list[str]] = {words: [] for words in _ADVICE.values()}
    known = [(one.makespan.ratio.value, one) for one in found.sets if one.makespan is not None]
    for value, one in sorted(known, key=lambda pair: pair[0]):
        sharing = "" if one.sharing == "naive" else f", {one.sharing}"
        shown = one.cause or f"{value - 1:+.0%}"
        doubt = f"; {one.doubt}" if one.doubt else ""
        groups[_ADVICE[one.verdict or ""]].append(f"{one.name} ({shown}{sharing}{doubt})")
    return " ".join(f"{words}: {'; '.join(some)}." for words, some in groups.items() if some) or None


_ADVICE = {
    "collocate": "Collocate",
    "apart": "Do not collocate",
    "even": "No difference",
    "unsure": "Undecided",
    "disturbed": "Undecided",
}


def _percent(change: float) -> str:
    """Return a relative change as text."""
    return f"{abs(change):.0%} {'longer' if change > 0 else 'shorter'}" if abs(change) >= 0.005 else "no difference"
