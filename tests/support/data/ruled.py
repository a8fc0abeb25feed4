"""Runs for tests of rules, with chosen metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypergauge.insight import rules
from hypergauge.insight.rules import Firing, Rule
from tests.support.data.trained import Training
from tests.support.world import World

LIMIT = timedelta(seconds=20)
HEALTH = {name: rule for name, rule in rules.load().items() if rule.path.parent.name == "health"}
GPUS = [f"GPU-{number:08x}-0000-4000-8000-000000000000" for number in range(4)]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def found(
    world: World, rule: str | Rule, run: str, start: float, stop: float, preset: str | None = None, **given: object
) -> list[Firing]:
    """Return a rule's findings in an interval of a run; a built-in rule is given by its name."""
    one = rules.load()[rule] if isinstance(rule, str) else rule
    values = one.values(preset, given)
    return rules.evaluate(world.connection, one, values, run, moment(start), moment(stop), LIMIT)


def fired(world: World, start: float, training: Training, *, workload: int = 1) -> dict[str, list[Firing]]:
    """Return the firings of all rules on health on a training, by rule."""
    stop = start + training.every * (training.steps + 1)
    run = world.run(start, stop, workload=workload)
    training.write(world, run, start)
    every = {name: found(world, name, run, start, stop) for name in HEALTH}
    return {name: firings for name, firings in every.items() if firings}


def gpu(
    world: World, start: float, values: Sequence[float], number: int = 0, metric: str = "utilization_ratio"
) -> None:
    """Write a value of a GPU for each second from `start` on."""
    times = [start + 0.5 + at for at in range(len(values))]
    labels = {"UUID": GPUS[number], "gpu": str(number)}
    world.write(world.gauge(f"bench_gpu_{metric}", times, list(values), labels, "nvml"))


def spans(world: World, run: str, kind: str, intervals: Sequence[tuple[float, float | None]], pid: int = 1) -> None:
    """Write spans of one kind for a run, numbered from 0."""
    rows = [
        (run, f"{kind} {pid} {at}", f"{kind} {at}", kind, at, began, ended, pid)
        for at, (began, ended) in enumerate(intervals)
    ]
    with world.connection.cursor() as cursor:
        cursor.executemany(
            "insert into spans (run_id, span_id, name, kind, step, started_at, ended_at, pid)"
            " values (%s, %s, %s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s)",
            rows,
        )


def rows(world: World, statement: str, *parameters: object) -> list[Any]:
    return world.connection.execute(statement.encode(), parameters).fetchall()


def write_metrics(
    world: World, start: float, labels: dict[str, str], exporter: str = "process", **metrics: Sequence[float] | float
) -> None:
    """Write values of metrics for each second from `start` on; a single number is constant."""
    length = max(len(values) for values in metrics.values() if not isinstance(values, float | int))
    times = [start + 0.5 + at for at in range(length)]
    for metric, values in metrics.items():
        every = [float(values)] * length if isinstance(values, float | int) else list(values)
        world.write(world.gauge(metric, times, every, labels, exporter))


def cpu(world: World, run: str, start: float, used: Sequence[float], available: float | None = 4) -> None:
    """Write a run's used and available cores of each second; a counter is stored as its rate."""
    allowed: dict[str, Any] = {} if available is None else {"bench_process_available_cores": available}
    write_metrics(world, start, {"run_id": run}, bench_process_cpu_seconds_total=used, **allowed)
