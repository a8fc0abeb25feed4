"""Charts, summaries and traces of a run and of its devices agree with a plain computation from the samples, whatever the source."""

from __future__ import annotations

import math
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.core.config.settings import Settings
from hypergauge.sql.queries.traces import counters_of
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import own_database
from tests.support.data.charts import ORIGIN, SHARED, elapsed_bin, relation_bucket, scopes_of
from tests.support.world import HOST, World

K = TypeVar("K")
Worlds = Callable[[], AbstractContextManager[World]]

pytestmark = pytest.mark.flavours

GPUS = ("GPU-1", "GPU-2")
SECONDS = 90
# A sample stands for a quarter of the second in whose middle it is, so that no run set begins or ends within one.
MIDDLE, LASTS = 0.5, 0.25

# Targets and metrics that measure the same.
GPU_SOURCES = [
    ("nvml", "bench_gpu_power_watts"),
    ("dcgm", "DCGM_FI_DEV_POWER_USAGE"),
    ("dcgm2", "DCGM_FI_DEV_POWER_USAGE"),
    ("nvml", "bench_gpu_utilization_ratio"),
    ("dcgm", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("dcgm2", "DCGM_FI_DEV_GPU_UTIL"),
]
COMBINE: dict[str, Callable[[Any], float]] = {"gpu_power": sum, "gpu_utilization": fmean, "cpu_usage": sum}


@dataclass(frozen=True)
class Measurement:
    """Seconds in which a target measured something: all from `first` to `last` but for one gap."""

    first: int
    last: int
    gap: int
    gap_length: int

    def seconds(self) -> list[int]:
        return [at for at in range(self.first, self.last) if not self.gap <= at < self.gap + self.gap_length]


@dataclass(frozen=True)
class Scenario:
    """A run of `start` to `end`, another one that shares the first GPU for a while, and what measured them."""

    start: int
    end: int
    gpus: int
    shared: tuple[int, int] | None
    gpu: dict[tuple[str, str, str], Measurement]  # by target, metric and GPU
    cpu: dict[str, Measurement]  # by target
    pods: bool
    phase: tuple[int, int]
    state: str
    seed: int


@st.composite
def measurements(draw: st.DrawFn) -> Measurement | None:
    if draw(st.booleans()) and draw(st.booleans()):
        return None
    # Mostly all the time: else nothing that is preferred would ever cover a run.
    first = draw(st.sampled_from([0, 0, 0, 10, 40]))
    last = draw(st.sampled_from([SECONDS, SECONDS, SECONDS, 70, 30]))
    return Measurement(first, last, draw(st.integers(0, SECONDS)), draw(st.sampled_from([0, 0, 3, 25])))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    start = draw(st.sampled_from([0, 5]))
    end = draw(st.integers(start + 20, SECONDS))
    gpus = draw(st.integers(1, 2))
    shared = draw(st.none() | st.tuples(st.integers(0, SECONDS - 10), st.integers(1, SECONDS)))
    gpu = {
        (target, metric, one): found
        for target, metric in GPU_SOURCES
        for one in GPUS
        if (found := draw(measurements()))
    }
    cpu = {target: found for target in ("process", "host", "node_exporter") if (found := draw(measurements()))}
    phase = sorted(draw(st.tuples(st.integers(start, end), st.integers(start, end))))
    return Scenario(
        start, end, gpus, shared, gpu, cpu, draw(st.booleans()), (phase[0], phase[1] + 1),
        draw(st.sampled_from(["summarised", "ended", "running"])), draw(st.integers(0, 1000)),
    )  # fmt: skip


@pytest.fixture
def worlds(request: pytest.FixtureRequest, flavour: Flavour, tmp_path: Path) -> Worlds:
    """Give empty worlds, each in a database of its own."""
    server, template = (request.getfixturevalue(f"{flavour}_{name}") for name in ("dsn", "template"))

    @contextmanager
    def make() -> Iterator[World]:
        folder = tmp_path / uuid.uuid4().hex
        with (
            own_database(server, timescaledb=False, template=template) as dsn,
            Database(Settings(home=folder, dsn=dsn)) as database,
            database.connect() as connection,
        ):
            yield World(database, folder / "spool", connection)

    return make


def build(world: World, scenario: Scenario) -> tuple[str, float]:
    """Start and measure the runs; return the one under test, and the time of second 0."""
    zero = time.time() // 600 * 600 - 7200
    start, end = zero + scenario.start, zero + scenario.end
    running = scenario.state == "running"
    run = world.run(start, gpu=GPUS[0])
    if scenario.gpus == 2:
        world.connection.execute(
            "insert into placements (run_id, host, gpu_uuid, started_at) values (%s, %s, %s, to_timestamp(%s))",
            (run, HOST, GPUS[1], start),
        )
    if not running:
        world.end(run, start, end)
    if scenario.shared:
        begin, length = scenario.shared
        world.run(zero + begin, zero + begin + length, position=2, gpu=GPUS[0])
    dice = random.Random(scenario.seed)

    def gauge(target: str, metric: str, measurement: Measurement, labels: dict[str, str]) -> SpoolRecord:
        times = [zero + at + MIDDLE for at in measurement.seconds()]
        return world.gauge(metric, times, [dice.random() * 100 for _ in times], labels, target, LASTS)

    records = []
    for (target, metric, gpu), measurement in scenario.gpu.items():
        # dcgm-exporter gives a line for each pod of a GPU, of which the greatest counts.
        pods = [{"pod": "a"}, {"pod": "b"}] if scenario.pods and metric.startswith("DCGM") else [{}]
        records += [gauge(target, metric, measurement, {"UUID": gpu, **pod}) for pod in pods]
    for target, measurement in scenario.cpu.items():
        if target == "process":
            records.append(gauge(target, "bench_process_cpu_seconds_total", measurement, {"run_id": run}))
        else:
            records += [
                gauge(target, "node_cpu_seconds_total", measurement, {"cpu": cpu, "mode": "user"}) for cpu in "01"
            ]
    world.write(*[record for record in records if len(record.times)])
    world.refresh()
    world.connection.execute(
        "delete from stored_duplicates; delete from stored_summaries; update runs set summarised = false"
    )
    if scenario.state == "summarised":
        world.connection.execute("select summarise(run_id) from runs where ended_at is not null")
    return run, zero


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


def chart(
    world: World, run: str, quantity: str, step: float, scopes: list[str] | None
) -> dict[str, list[tuple[float, ...]]]:
    rows = world.connection.execute(
        """
        select scope, extract(epoch from time)::float8, value, low, high
        from run_chart(array[%s], array[%s], null, null, %s, true, 9, %s) order by 1, 2
        """,
        (run, quantity, step * 1000, scopes),
    ).fetchall()
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for scope, *point in rows:
        found[scope].append(tuple(point))
    return found


def summary(world: World, source: str, run: str, quantity: str) -> dict[str, tuple[float, ...]]:
    rows = world.connection.execute(
        f"select scope, n, seconds, mean, min, max, p50, p95, total from {source}"
        " where run_id = %s and quantity = %s and metric is null".encode(),
        (run, quantity),
    ).fetchall()
    return {scope: tuple(row) for scope, *row in rows}


def statistics(values: list[float]) -> Any:
    """Return what a summary has of values that each stand for as long, within rounding."""
    seconds = len(values) * LASTS
    wanted = (
        len(values),
        seconds,
        fmean(values),
        min(values),
        max(values),
        *np.percentile(values, [50, 95]),
        fmean(values) * seconds,
    )
    return pytest.approx(wanted, rel=1e-6)


def check(world: World, scenario: Scenario) -> None:
    run, zero = build(world, scenario)
    running = scenario.state == "running"
    begin, end = (zero + at for at in scenario.phase)
    for quantity in COMBINE:
        found = series_of(world, run, quantity)
        chosen = counting(found, running=running)
        scopes = {scope: [one for one in chosen if one.scope == scope] for scope in {one.scope for one in chosen}}
        for step in (1, 10, 60):
            drawn = chart(world, run, quantity, step, ["process", "instance", "device", "host"])
            wanted = {scope: points(series, quantity, zero + scenario.start, step) for scope, series in scopes.items()}
            assert set(drawn) == {scope for scope in wanted if wanted[scope]}, quantity
            for scope, line in drawn.items():
                assert np.array(line) == pytest.approx(np.array(wanted[scope]), rel=1e-6), (quantity, scope, step)
        moments = {
            scope: [value for _, value, *_ in points(series, quantity, zero, 1)] for scope, series in scopes.items()
        }
        wholes = {scope: statistics(values) for scope, values in moments.items() if values}
        assert summary(world, "run_summary", run, quantity) == wholes, quantity
        # A phase is measured by the sources of the whole run.
        within = {
            scope: [value for at, value, *_ in points(series, quantity, 0, 1) if begin <= at < end]
            for scope, series in scopes.items()
        }
        part = f"summary_between('{run}', null, to_timestamp({begin}), to_timestamp({end}))"
        assert summary(world, part, run, quantity) == {
            scope: statistics(values) for scope, values in within.items() if values
        }
        # Where no scope is chosen, chart, summaries and trace take the narrowest that measured anything.
        narrowest = min((scope for scope in scopes), key=scopes_of(world, run).index, default=None)
        assert set(chart(world, run, quantity, 1, None)) == ({narrowest} if narrowest and moments[narrowest] else set())
        traced = list(counters_of(world.connection, run, [quantity]))
        assert {one.scope for one in traced} == ({narrowest} if narrowest and moments[narrowest] else set())
        if narrowest and moments[narrowest]:
            values = [value for device in {one.device for one in scopes[narrowest]}
                      for _, value, *_ in points([one for one in scopes[narrowest] if one.device == device], quantity, zero, 1)]  # fmt: skip
            assert sorted(one.value for one in traced) == pytest.approx(sorted(values), rel=1e-6)


def series_of_resources(world: World, quantity: str, begin: float, end: float) -> dict[str, list[Series]]:
    """Return what measured a quantity of GPUs and of the host in an interval, by the resource."""
    rows = world.connection.execute(
        """
        select s.series_id, coalesce(d.device, p.host), s.target_id, s.metric, m.preference, coalesce(s.device, ''),
               m.whole_device or s.metric like 'DCGM%%', 0, 0,
               array_agg(array[extract(epoch from x.time)::float8, x.value * m.scale, x.dt] order by x.time)
        from series s join places p using (place_id) join metrics m using (metric_id) join samples x using (series_id)
        left join devices d using (place_id)
        where p.run_id is null and s.quantity = %s and x.time >= to_timestamp(%s) and x.time < to_timestamp(%s)
        group by s.series_id, d.device, p.host, m.metric_id
        """,
        (quantity, begin, end),
    ).fetchall()
    found: dict[str, list[Series]] = defaultdict(list)
    for row in rows:
        found[row[1]].append(Series(*row))
    return found


def series_chart(world: World, quantity: str, begin: float, end: float) -> dict[str, dict[float, float]]:
    rows = world.connection.execute(
        "select series, extract(epoch from time)::float8, value"
        " from series_chart(array[%s], to_timestamp(%s), to_timestamp(%s), 1000, %s)",
        (quantity, begin, end, "host" if quantity == "cpu_usage" else "device"),
    ).fetchall()
    found: dict[str, dict[float, float]] = defaultdict(dict)
    for resource, at, value in rows:
        found[resource][at] = value
    return found


def newest(found: list[Series], quantity: str, since: float) -> float:
    """Return the newest value of what still measures a resource; each source lasted until its newest sample."""
    last = {one.series_id: one.samples[-1] for one in found}
    latest = max(at for at, _, _ in last.values())
    shortened = [
        replace(one, samples=[[at, value, min(at + lasts, latest) - since]])
        for one in found
        for at, value, lasts in [last[one.series_id]]
    ]
    chosen = counting(shortened, running=False)
    now = max(at for one in chosen for at in one.times)
    return points([one for one in chosen if now in one.times], quantity, 0, 1)[-1][1]


def check_resources(world: World, scenario: Scenario) -> None:
    run, zero = build(world, scenario)
    begin, end = zero + scenario.start, zero + scenario.end
    for quantity in COMBINE:
        found = series_of_resources(world, quantity, begin, end)
        drawn = series_chart(world, quantity, begin, end)
        assert set(drawn) == set(found), quantity
        chosen = {resource: counting(series, running=False) for resource, series in found.items()}
        for resource, series in chosen.items():
            wanted = {at: value for at, value, *_ in points(series, quantity, 0, 1)}
            line = drawn[resource]
            assert {at: line.get(at) for at in wanted} == pytest.approx(wanted, rel=1e-6), (quantity, resource)
            # Other sources only fill minutes in which it is silent, and leave none empty.
            minutes = {at // 60 for at in wanted}
            assert not {at for at in line if at not in wanted and at // 60 in minutes}, (quantity, resource)
            assert {at // 60 for at in line} == {at // 60 for one in found[resource] for at in one.times}, quantity
        # A run has the sources of the resources that it has for itself, over its time.
        if scenario.state != "running":
            runs = chart(world, run, quantity, 1, ["instance", "device", "host"])
            mine = [("host", HOST)]
            if scenario.gpus == 1:
                mine.append(("device" if "device" in runs else "instance", GPUS[0]))
            for scope, resource in mine:
                of_run = {begin + math.floor(at): value for at, value, *_ in runs.get(scope, [])}
                line = drawn.get(resource, {})
                assert {at: line.get(at) for at in of_run} == pytest.approx(of_run, rel=1e-6), (quantity, scope)
        if quantity == "gpu_power":
            joules = {
                resource: sum(value for _, value, *_ in points(series, quantity, 0, 1)) * LASTS
                for resource, series in chosen.items()
            }
            rows = world.connection.execute(
                "select device, joules from energy(to_timestamp(%s), to_timestamp(%s)) where kind = 'whole'",
                (begin, end),
            ).fetchall()
            assert dict(rows) == pytest.approx(joules, rel=1e-6)
        for since in (begin, zero + SECONDS / 2):
            present = series_of_resources(world, quantity, since, zero + SECONDS)
            rows = world.connection.execute(
                "select coalesce(d.device, p.host), n.value from newest(array(select place_id from places where run_id is null),"
                " array[%s], to_timestamp(%s)) n join places p using (place_id) left join devices d using (place_id)",
                (quantity, since),
            ).fetchall()
            values = {resource: newest(series, quantity, since) for resource, series in present.items()}
            assert dict(rows) == pytest.approx(values, rel=1e-6), (quantity, since)


# Two targets in a line, of which one has no sample in the scope.
SILENT_TARGET = Scenario(
    start=0, end=42, gpus=2, shared=(3, 77),
    gpu={
        ("dcgm", "DCGM_FI_DEV_POWER_USAGE", "GPU-2"): Measurement(0, 30, 4, 3),
        ("dcgm2", "DCGM_FI_DEV_POWER_USAGE", "GPU-1"): Measurement(10, 70, 42, 0),
        ("dcgm2", "DCGM_FI_DEV_POWER_USAGE", "GPU-2"): Measurement(0, 70, 88, 0),
    },
    cpu={}, pods=False, phase=(7, 19), state="running", seed=318,
)  # fmt: skip
QUICK = settings(max_examples=5, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
THOROUGH = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@QUICK
@example(SILENT_TARGET)
@given(scenario=scenarios())
def test_chart_summary_and_samples_agree(worlds: Worlds, scenario: Scenario) -> None:
    with worlds() as world:
        check(world, scenario)


@pytest.mark.slow
@THOROUGH
@given(scenario=scenarios())
def test_chart_summary_and_samples_agree_in_many_cases(worlds: Worlds, scenario: Scenario) -> None:
    with worlds() as world:
        check(world, scenario)


@QUICK
@given(scenario=scenarios())
def test_devices_and_runs_have_the_same_sources(worlds: Worlds, scenario: Scenario) -> None:
    with worlds() as world:
        check_resources(world, scenario)


@pytest.mark.slow
@THOROUGH
@given(scenario=scenarios())
def test_devices_and_runs_have_the_same_sources_in_many_cases(worlds: Worlds, scenario: Scenario) -> None:
    with worlds() as world:
        check_resources(world, scenario)
