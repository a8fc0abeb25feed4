"""Sources of a quantity, and which of them count, computed plainly from the samples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from tests.support.data.charts import ORIGIN, SHARED, elapsed_bin, relation_bucket
from tests.support.data.scenarios import COMBINE
from tests.support.world import World

K = TypeVar("K")


@dataclass(frozen=True)
class Series:
    """A series in a scope, with its samples: at which time, the value, and for how long."""

    series_id: int
    scope: str
    target: int
    metric: str
    preference: int
    device: str
    once: bool
    begin: float
    end: float
    samples: list[list[float]]

    @property
    def times(self) -> dict[float, float]:
        return {at: lasts for at, _, lasts in self.samples}


def series_of(world: World, run: str, quantity: str) -> list[Series]:
    """Return what measured a quantity of a run, by its tags alone."""
    rows = world.connection.execute(
        f"""
        select s.series_id, y.scope, s.target_id, s.metric, m.preference, coalesce(s.device, ''),
               m.whole_device or s.metric like 'DCGM%%',
               min(extract(epoch from rs.started_at))::float8, max(extract(epoch from coalesce(rs.ended_at, now())))::float8,
               coalesce(array_agg(array[extract(epoch from x.time)::float8, x.value * m.scale, x.dt] order by x.time)
                        filter (where x.time is not null), '{{}}')
        from run_sets rs join series s using (place_id) join metrics m using (metric_id)
        cross join lateral unnest(array[rs.scope, case when rs.scope = 'instance' and {SHARED} then 'device' end]) y (scope)
        left join samples x on x.series_id = s.series_id and x.runset_id = rs.runset_id
        where rs.run_id = %s and s.quantity = %s and y.scope is not null group by s.series_id, y.scope, m.metric_id
        """.encode(),
        (run, quantity),
    ).fetchall()
    return [Series(*row) for row in rows]


def covering(seconds: Mapping[K, float]) -> set[K]:
    """Return those that measured about as long as the one that measured longest."""
    most = max(seconds.values())
    return {one for one, lasted in seconds.items() if lasted >= min(0.9 * most, most - 5)}


def seconds_of(found: list[Series], series: int) -> Iterable[float]:
    """Return how long each sample of a series stands for, once for all scopes."""
    return {at: lasts for one in found if one.series_id == series for at, lasts in one.times.items()}.values()


def counting(found: list[Series], *, running: bool) -> list[Series]:
    """Return the series that count, in each scope."""
    # Of targets that give the same metric of a device, one.
    first: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: one.series_id):
        first[one.metric, one.device].setdefault(one.target, one.series_id)
    kept = set()
    for (metric, device), targets in first.items():
        lasted = {
            (series, target): 0.0 if running else sum(seconds_of(found, series)) for target, series in targets.items()
        }
        kept.add((metric, device, min(covering(lasted))[1]))
    found = [one for one in found if (one.metric, one.device, one.target) in kept]
    # Of metrics, one in each scope, and for each GPU.
    chosen = []
    for scope in {one.scope for one in found}:
        here = [one for one in found if one.scope == scope]
        seconds: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
        for one in here:
            times = {at: lasts for other in here if (other.metric, other.device) == (one.metric, one.device)
                     for at, lasts in other.times.items()}  # fmt: skip
            if running or times:
                seconds[one.preference, one.metric][one.device] = (
                    one.end - one.begin if running else sum(times.values())
                )
        if not seconds:
            continue
        covers = covering({metric: sum(devices.values()) for metric, devices in seconds.items()})
        for device in {one.device for one in here}:
            there = {metric for metric, devices in seconds.items() if device in devices}
            if there:
                _, metric = min(there & covers or there)
                chosen += [one for one in here if (one.metric, one.device) == (metric, device)]
    return chosen


def points(series: list[Series], quantity: str, start: float, step: float) -> list[tuple[float, float, float, float]]:
    """Return a chart's points: when, mean, least and greatest."""
    bucket = relation_bucket(step)
    members: dict[float, dict[object, list[tuple[float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        bins: dict[float, list[float]] = defaultdict(list)
        for at, value, _ in one.samples:
            moment = math.floor((at - ORIGIN) / bucket) * bucket + ORIGIN if bucket else at
            bins[elapsed_bin(moment, start, bucket, step)].append(value)
        for when, values in bins.items():
            members[when][one.device if one.once else one.series_id].append((fmean(values), min(values), max(values)))
    combine = COMBINE[quantity]
    drawn = []
    for when, lines in sorted(members.items()):
        means, lows, highs = zip(
            *(tuple(max(column) for column in zip(*each, strict=True)) for each in lines.values()), strict=True
        )
        low, high = (sum(lows), sum(highs)) if combine is sum else (min(lows), max(highs))
        drawn.append((when, combine(means), low, high))
    return drawn
