"""Charts computed sample by sample, and test data for them."""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import pytest

from tests.support.world import World

ORIGIN = 946_857_600  # Monday 2000-01-03, the origin of buckets in both flavours
SECONDS = 1500
INTERVAL = 1.0  # of scrapes in `random_world`
# Whether the run of the run set `rs` ever shared a device of the same kind, so that its time alone is in scope `device` too.
SHARED = """exists (
    select from run_sets other join places its using (place_id) join places mine on mine.place_id = rs.place_id
    where other.run_id = rs.run_id and other.scope = 'device' and its.kind = mine.kind)"""
Point = tuple[float, str, str, str, float, float, float]


@dataclass
class Axis:
    """Steps of runs: start of each by its position, and end of the last one."""

    begins: dict[str, list[float]]
    ends: dict[str, float]

    @property
    def pace(self) -> float:
        """Seconds per step of the fastest run."""
        return min((self.ends[run] - begins[0]) / len(begins) for run, begins in self.begins.items())

    def position(self, run: str, moment: float) -> int | None:
        """Return a run's step at a time; a gap between two belongs to the first."""
        if run not in self.begins or not self.begins[run][0] <= moment < self.ends[run]:
            return None
        return bisect_right(self.begins[run], moment) - 1


def relation_bucket(step: float) -> float:
    """Return the bucket of the relation for a chart with this step; 0 for raw samples."""
    return next((bucket for bucket in (600.0, 60.0, 10.0) if step >= bucket), 0.0)


def expected(
    world: World, runs: list[str], quantities: list[str], step: float, *, aligned: bool,
    start: float | None = None, stop: float | None = None, per_device: bool = False, scopes: list[str] | None = None,
    axis: Axis | None = None,
) -> list[Point]:  # fmt: skip
    """Compute a chart sample by sample, without aggregates and plans."""
    rows = world.connection.execute(
        f"""
        select r.run_id, extract(epoch from r.started_at)::float8, w.workload || '/' || r.position, s.quantity, y.scope,
               s.metric, s.device, s.series_id, s.target_id, coalesce(m.scale, 1), m.combine, m.whole_device, coalesce(m.preference, 1),
               extract(epoch from x.time)::float8, x.value, x.dt::float8
        from runs r join workloads w using (workload_id) join run_sets rs using (run_id)
        cross join lateral unnest(array[rs.scope, case when rs.scope = 'instance' and {SHARED} then 'device' end]) y (scope)
        join samples x on x.runset_id = rs.runset_id join series s using (series_id) left join metrics m using (metric_id)
        where r.run_id = any(%s) and s.quantity = any(%s) and y.scope is not null
        """.encode(),
        (runs, quantities),
    ).fetchall()
    narrowest: dict[tuple[str, str], int] = {}
    widths = {run: scopes_of(world, run) for run in runs}
    for run, _, _, quantity, scope, *_ in rows:
        narrowest[run, quantity] = min(narrowest.get((run, quantity), 9), widths[run].index(scope))
    rows = [
        row
        for row in rows
        if (row[4] in scopes if scopes else widths[row[0]].index(row[4]) == narrowest[row[0], row[3]])
    ]
    preferred: dict[tuple[str, str, str], tuple[int, str]] = {}
    for run, _, _, quantity, scope, metric, *rest in rows:
        mine = (rest[6], metric)
        preferred[run, quantity, scope] = min(preferred.get((run, quantity, scope), mine), mine)
    bucket = relation_bucket(step * axis.pace) if axis else relation_bucket(step)
    step = math.ceil(step / bucket) * bucket if bucket and not axis else step
    series: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    scales, combines = {}, {}
    low, high = -math.inf if start is None else start, math.inf if stop is None else stop
    rows = [row for row in rows if row[5] == preferred[row[0], row[3], row[4]][1]]
    firsts = first_samples(rows, low, high) if aligned and not axis and step < 2 * INTERVAL else {}
    for run, begin, label, quantity, scope, _, device, one, target, scale, combine, whole, _, at, value, dt in rows:
        if value is None:
            continue
        moment = math.floor((at - ORIGIN) / bucket) * bucket + ORIGIN if bucket else at
        shift = begin if aligned and not axis else 0.0
        position = axis.position(run, moment + bucket / 2) if axis else moment
        if position is None or not shift + low <= position < shift + high:
            continue
        if axis:
            when = position // step * step
        else:
            middle = step / 2 - firsts[run, target] % step if (run, target) in firsts else 0.0
            when = elapsed_bin(moment, begin - middle, bucket, step) if aligned else clock_bin(moment, begin, step)
        line = (label, quantity, scope, (device or "") if per_device else "")
        series[(round(when, 3), *line, device if whole else "", one if not whole else 0, one)].append((value, dt))
        scales[one], combines[line] = scale, combine
    members: dict[tuple[Any, ...], list[tuple[float, float, float]]] = defaultdict(list)
    for (*member, one), samples in series.items():
        scale, seconds = scales[one], sum(dt for _, dt in samples)
        values = [value for value, _ in samples]
        mean = sum(value * dt for value, dt in samples) / seconds
        members[tuple(member)].append((scale * mean, scale * min(values), scale * max(values)))
    lines: dict[tuple[Any, ...], list[tuple[float, float, float]]] = defaultdict(list)
    for (when, label, quantity, scope, device, *_), triples in members.items():
        means, lows, highs = zip(*triples, strict=True)
        lines[when, label, quantity, scope, device].append((fmean(means), min(lows), max(highs)))
    points = []
    for (when, label, quantity, scope, device), triples in lines.items():
        means, lows, highs = zip(*triples, strict=True)
        combine = combines[label, quantity, scope, device]
        mean = sum(means) if combine == "sum" else max(means) if combine == "max" else fmean(means)
        low, high = (sum(lows), sum(highs)) if combine == "sum" else (min(lows), max(highs))
        points.append((when, f"{label} {device}".strip(), quantity, scope, mean, low, high))
    return sorted(points)


def first_samples(rows: list[tuple[Any, ...]], low: float, high: float) -> dict[tuple[str, int], float]:
    """Return the seconds from the start of each run to the first sample of each target between `low` and `high`."""
    firsts: dict[tuple[str, int], float] = {}
    for run, begin, *_, target, _, _, _, _, at, _, dt in rows:
        if dt > 0 and low <= at - begin < high:
            firsts[run, target] = min(firsts.get((run, target), at - begin), at - begin)
    return firsts


def elapsed_bin(moment: float, begin: float, bucket: float, step: float) -> float:
    """Return the bin of a moment since `begin`, which a shift may have moved."""
    return math.floor((max(moment - begin, 0) + bucket / 2) / step) * step


def clock_bin(moment: float, begin: float, step: float) -> float:
    return max(math.floor((moment - ORIGIN) / step) * step + ORIGIN, begin)


def scopes_of(world: World, run: str) -> list[str]:
    """Return the scopes in order of preference for a run on one whole GPU."""
    seconds: dict[str, float] = dict(
        world.connection.execute(
            "select scope, sum(extract(epoch from coalesce(ended_at, now()) - started_at))::float8 from run_sets join places using (place_id)"
            " where run_sets.run_id = %s and kind = 'gpu' group by scope",
            (run,),
        ).fetchall()
    )
    alone = not seconds or seconds.get("instance", 0) >= 9 * seconds.get("device", 0)
    return ["process", *(["instance", "device"] if alone else ["device", "instance"]), "host"]


def chart(
    world: World, runs: list[str], quantities: list[str], step: float, *, aligned: bool,
    start: float | None = None, stop: float | None = None, per_device: bool = False, scopes: list[str] | None = None,
    align: str = "time",
) -> list[Point]:  # fmt: skip
    """Return the same by `run_chart`."""
    rows = world.connection.execute(
        """
        select extract(epoch from time)::float8, replace(replace(series, '20/', ''), ' train', ''), quantity, scope,
               value, low, high
        from run_chart(%s, %s, %s, %s, %s, %s, 50, %s, %s, %s)
        """,
        (runs, quantities, moment_of(start), moment_of(stop), step * 1000, aligned, scopes, per_device, align),
    ).fetchall()
    return sorted((round(row[0], 3), *row[1:]) for row in rows)


def moment_of(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def assert_same(found: list[Point], wanted: list[Point]) -> None:
    assert [point[:4] for point in found] == [point[:4] for point in wanted]
    values = [value for point in found for value in point[4:]]
    assert values == pytest.approx([value for point in wanted for value in point[4:]], rel=1e-9, abs=1e-9)


def random_world(world: World, seed: int) -> tuple[list[str], float]:
    """Create runs that share GPUs for a while, on a host with gaps of exporters and resets of counters."""
    dice = random.Random(seed)
    start = time.time() // 600 * 600 - 7200 + dice.random() * 100
    runs = []
    for position, gpu in enumerate(("GPU-1", "GPU-1", "GPU-2"), 1):
        begin = start + dice.uniform(0, SECONDS / 2)
        end = begin + dice.uniform(60, SECONDS / 2)
        runs.append(world.run(begin, end, position=position, gpu=gpu))
    names = {
        "host": [f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}}' for cpu in (0, 1) for mode in ("user", "idle")],
        "process": [f'bench_process_cpu_seconds_total{{run_id="{run}"}}' for run in runs],
        "dcgm": [
            f'{metric}{{UUID="{gpu}"}}'
            for gpu in ("GPU-1", "GPU-2")
            for metric in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE")
        ],
    }
    for exporter, series in names.items():
        values, scrapes = dict.fromkeys(series, 0.0), []
        silent_until = 0.0
        for second in range(SECONDS):
            if dice.random() < 0.005:
                silent_until = second + dice.uniform(2, 90)
            if second < silent_until:
                continue
            lines = []
            for name in series:
                if "_total" in name:
                    values[name] = 0.0 if dice.random() < 0.003 else values[name] + dice.random() * 3
                else:
                    values[name] = math.nan if dice.random() < 0.01 else dice.random() * 100
                lines.append(f"{name} {values[name]!r}".replace("nan", "NaN"))
            scrapes.append((start + second + 0.25, "\n".join([*lines, ""]).encode()))
        world.write(world.scraped(scrapes, exporter))
    return runs, start
