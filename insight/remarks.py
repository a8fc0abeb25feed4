"""What a picture must not hide: figures that are missing, made up, or not the same thing in every run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from insight.quantities import spoken
from sql.charts import Measured
from sql.selection import RunInfo

__all__ = ["differences", "gaps", "left_out", "missing", "profiled", "simulated", "without_axis"]

# More would be longer than the picture.
_MOST_LABELS = 8
# Below this share of a run's duration, what was measured is not the run.
_LEAST_COVERAGE = 0.9
# Beyond this ratio two intervals between samples are not the same.
_SAME_INTERVAL = 1.5
# As in `scope_words`, which dashboards say it with.
_WORDS = {
    "process": "the run's own",
    "instance": "that of GPUs or MIG instances that the run had to itself",
    "device": "that of GPUs that others used as well",
    "host": "that of the whole host",
}
_OWN = ("process", "instance")


def without_axis(runs: Sequence[RunInfo], align: str, there: Collection[str]) -> Iterator[str]:
    """Yield a sentence where some of the runs are not on the axis that the others have in common."""
    if without := [run.label for run in runs if run.run_id not in there]:
        what = f"phase {align.removeprefix('phase:')}" if align.startswith("phase:") else f"{align}s"
        yield f"{_listed(without)} {'has' if len(without) == 1 else 'have'} no {what}, and so no curve"


def missing(runs: Sequence[RunInfo], having: Mapping[str, AbstractSet[str]]) -> Iterator[str]:
    """Yield a sentence for each metric that some of the runs do not have; `having` are those that do."""
    for metric, some in having.items():
        without = [run.label for run in runs if run.run_id not in some]
        if without:
            yield f"{_listed(without)} {'has' if len(without) == 1 else 'have'} no {metric}"


def differences(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> Iterator[str]:
    """Yield what is said of quantities that are not the same thing in all runs, or not the runs' own."""
    yield from _together(runs, facts, _scopes, _sources, _intervals)


def gaps(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> Iterator[str]:
    """Yield what is said of quantities that were measured in a part of a run's time only."""
    yield from _together(runs, facts, _gaps)


def simulated(runs: Sequence[RunInfo], metrics: Iterable[str], made_up: Collection[str]) -> Iterator[str]:
    """Yield a sentence where figures are of simulated GPUs."""
    if made_up and any(metric.startswith("gpu_") for metric in metrics):
        yield f"* {_listed([r.label for r in runs if r.run_id in made_up])} ran on simulated GPUs: figures of these are made up"


def profiled(runs: Sequence[RunInfo]) -> Iterator[str]:
    """Yield a sentence for each profiler that runs were under."""
    for profilers, some in _grouped(runs, ((run.run_id, run.profilers) for run in runs if run.profilers)).items():
        names = " and ".join(profilers.split("+"))
        yield f"◆ {_listed(some)} ran under {names}, which slows {'it' if len(some) == 1 else 'them'} down"


def left_out(by: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield a sentence that names what there was no place for."""
    if labels:
        yield f"{len(labels)} more {by}{'s'[: len(labels) != 1]} left out: {_listed(labels)}"


def _together(
    runs: Sequence[RunInfo], facts: Sequence[Measured], *kinds: Callable[[Sequence[RunInfo], Sequence[Measured]], str]
) -> Iterator[str]:
    """Yield what there is to say of each kind, once for all the quantities that the same is said of."""
    for kind in kinds:
        said: dict[str, list[str]] = {}
        for quantity in dict.fromkeys(one.quantity for one in facts):
            if words := kind(runs, [one for one in facts if one.quantity == quantity]):
                said.setdefault(words, []).append(spoken(quantity))
        yield from (f"{', '.join(quantities)}: {words}" for words, quantities in said.items())


def _scopes(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> str:
    scopes = _grouped(runs, ((one.run_id, one.scope) for one in facts))
    if len(scopes) > 1:
        return "; ".join(f"{_WORDS[scope]} in {_listed(some)}" for scope, some in scopes.items())
    [scope] = scopes
    return "" if scope in _OWN else _WORDS[scope]


def _sources(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> str:
    sources = _grouped(runs, ((one.run_id, " and ".join(one.sources)) for one in facts))
    if len(sources) == 1:
        return ""
    return "; ".join(f"read from {name} in {_listed(some)}" for name, some in sources.items())


def _intervals(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> str:
    intervals = [one.interval for one in facts]
    if max(intervals) <= _SAME_INTERVAL * min(intervals):
        return ""
    grouped = _grouped(runs, ((one.run_id, f"{one.interval:.2g} s") for one in facts))
    return "; ".join(f"read every {interval} in {_listed(some)}" for interval, some in grouped.items())


def _gaps(runs: Sequence[RunInfo], facts: Sequence[Measured]) -> str:
    durations = {run.run_id: run.duration for run in runs if run.ended_at is not None and run.duration}
    shares = ((one.run_id, one.seconds / durations[one.run_id]) for one in facts if one.run_id in durations)
    short = _grouped(runs, ((run_id, f"{share:.0%}") for run_id, share in shares if share < _LEAST_COVERAGE))
    return "; ".join(f"measured for {share} of the time only in {_listed(some)}" for share, some in short.items())


def _grouped(runs: Sequence[RunInfo], said: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return what is said of runs by their ids, each with the labels of those that it is said of."""
    labels = {run.run_id: run.label for run in runs}
    found: dict[str, list[str]] = {}
    for run_id, words in said:
        found.setdefault(words, []).append(labels[run_id])
    return found


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - _MOST_LABELS
    return ", ".join(labels[:_MOST_LABELS]) + (f" and {more} more" if more > 0 else "")
