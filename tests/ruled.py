"""What tests of rules begin with: runs on which figures are as they are wanted, and what a rule finds there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from insight import rules
from insight.rules import Firing, Rule
from tests.world import World

LIMIT = timedelta(seconds=20)
GPUS = [f"GPU-{number:08x}-0000-4000-8000-000000000000" for number in range(4)]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def found(
    world: World, rule: str | Rule, run: str, start: float, stop: float, preset: str | None = None, **given: object
) -> list[Firing]:
    """Return what a rule, ours by its name, finds in a stretch of a run."""
    one = rules.load()[rule] if isinstance(rule, str) else rule
    values = one.values(preset, given)
    return rules.evaluate(world.connection, one, values, run, moment(start), moment(stop), LIMIT)


def gpu(
    world: World, start: float, values: Sequence[float], number: int = 0, metric: str = "utilization_ratio"
) -> None:
    """Let a GPU have a figure for each second from `start` on."""
    times = [start + 0.5 + at for at in range(len(values))]
    labels = {"UUID": GPUS[number], "gpu": str(number)}
    world.write(world.gauge(f"bench_gpu_{metric}", times, list(values), labels, "nvml"))


def spans(world: World, run: str, kind: str, edges: Sequence[tuple[float, float | None]], pid: int = 1) -> None:
    """Give a run spans of one kind, numbered from 0."""
    rows = [
        (run, f"{kind} {pid} {at}", f"{kind} {at}", kind, at, began, ended, pid)
        for at, (began, ended) in enumerate(edges)
    ]
    with world.connection.cursor() as cursor:
        cursor.executemany(
            "insert into spans (run_id, span_id, name, kind, step, started_at, ended_at, pid)"
            " values (%s, %s, %s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s)",
            rows,
        )


def rows(world: World, statement: str, *parameters: object) -> list[Any]:
    return world.connection.execute(statement.encode(), parameters).fetchall()
