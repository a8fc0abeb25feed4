"""Charts, summaries and traces of a run and of its devices agree with a plain computation from the samples, whatever the source."""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from hypergauge.core.config.settings import Settings
from hypergauge.sql.queries.traces import counters_of
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.conftest import own_database
from tests.support.data.charts import scopes_of
from tests.support.data.scenarios import COMBINE, GPUS, LASTS, SECONDS, SILENT_TARGET, Scenario, build, scenarios
from tests.support.data.sources import Series, counting, points, series_of
from tests.support.world import HOST, World

Worlds = Callable[[], AbstractContextManager[World]]
Check = Callable[[World, Scenario], None]

pytestmark = pytest.mark.flavours


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


def lacks_targets(series: list[Series]) -> bool:
    """Return whether some moments lack one of several targets: see test_several_targets.py for their values."""
    times: dict[int, set[float]] = defaultdict(set)
    for one in series:
        times[one.target] |= set(one.times)
    return len({frozenset(one) for one in times.values()}) > 1


def check_run(world: World, scenario: Scenario) -> None:
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
                if lacks_targets(scopes[scope]):
                    assert {at for at, *_ in line} <= {at for at, *_ in wanted[scope]}, (quantity, scope, step)
                    continue
                assert np.array(line) == pytest.approx(np.array(wanted[scope]), rel=1e-6), (quantity, scope, step)
        moments = {
            scope: [value for _, value, *_ in points(series, quantity, zero, 1)] for scope, series in scopes.items()
        }
        whole = {scope for scope, series in scopes.items() if not lacks_targets(series)}
        wholes = {scope: statistics(values) for scope, values in moments.items() if values and scope in whole}
        found_wholes = summary(world, "run_summary", run, quantity)
        assert {scope: found_wholes[scope] for scope in whole & found_wholes.keys()} == wholes, quantity
        # A phase is measured by the sources of the whole run.
        within = {
            scope: [value for at, value, *_ in points(series, quantity, 0, 1) if begin <= at < end]
            for scope, series in scopes.items()
        }
        part = f"summary_between('{run}', null, tstzmultirange(tstzrange(to_timestamp({begin}), to_timestamp({end}))))"
        found_parts = summary(world, part, run, quantity)
        assert {scope: found_parts[scope] for scope in whole & found_parts.keys()} == {
            scope: statistics(values) for scope, values in within.items() if values and scope in whole
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


QUICK = settings(max_examples=5, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
THOROUGH = settings(max_examples=150, suppress_health_check=list(HealthCheck))
both = pytest.mark.parametrize("check", [check_run, check_resources])


@both
@QUICK
@example(scenario=SILENT_TARGET)
@given(scenario=scenarios())
def test_sources_agree_with_samples(worlds: Worlds, check: Check, scenario: Scenario) -> None:
    with worlds() as world:
        check(world, scenario)


@pytest.mark.slow
@both
@THOROUGH
@given(scenario=scenarios())
def test_sources_agree_with_samples_in_many_cases(worlds: Worlds, check: Check, scenario: Scenario) -> None:
    with worlds() as world:
        check(world, scenario)
