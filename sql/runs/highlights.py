"""Stored highlights of runs, and the queries that find them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records

__all__ = ["Highlight", "SlowSteps", "load", "runs_without_highlights", "slow_steps", "store"]


@dataclass(frozen=True, slots=True)
class Highlight:
    """Highlight of a run, shown as one line.

    Attributes
    ----------
    kind
        ``initialization``, ``training``, ``evaluation``, ``checkpoint``, ``pause``, ``ending``: a phase; ``repetition``:
        a repeated sequence of phases; ``level``, ``steady``: an interval without a phase; ``change``, ``trend``,
        ``outlier``, ``gap``; ``rest``: the number of omitted highlights.
    weight
        Importance, from 0 to 1.
    """

    started_at: datetime
    ended_at: datetime
    kind: str
    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class SlowSteps:
    """Steps or epochs of a run that took far longer than the median.

    Attributes
    ----------
    n
        Number of slow steps or epochs. The slowest is `step`, from `started_at` to `ended_at`.
    usual, slowest
        Median duration and duration of the slowest, in seconds.
    """

    kind: str
    n: int
    step: int | None
    started_at: datetime
    ended_at: datetime
    usual: float
    slowest: float


def store(connection: Connection, run_id: str, highlights: Iterable[Highlight]) -> None:
    """Replace the stored highlights of a run."""
    rows = [(run_id, one.started_at, one.ended_at, one.kind, one.text, one.weight) for one in highlights]
    with connection.transaction():
        connection.execute("delete from highlights where run_id = %s", (run_id,))
        connection.cursor().executemany(
            """
            insert into highlights (run_id, started_at, ended_at, kind, text, weight) values (%s, %s, %s, %s, %s, %s)
            """,
            rows,
        )


def load(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[Highlight]]:
    """Return the stored highlights of runs, in order of time."""
    found: dict[str, list[Highlight]] = {}
    for run_id, *columns in connection.execute(
        """
        select run_id, started_at, ended_at, kind, text, weight from highlights
        where run_id = any(%s) order by run_id, kind = 'rest', started_at, ended_at, text
        """,
        (list(run_ids),),
    ).fetchall():
        found.setdefault(run_id, []).append(Highlight(*columns))
    return found


def runs_without_highlights(connection: Connection, host: str) -> list[str]:
    """Return the runs of a host that were evaluated by rules within a day and have no highlights, newest first."""
    return column(
        connection,
        """
        select run_id from runs r
        where evaluated and host = %s and ended_at > now() - interval '1 day' and ended_at - started_at >= interval '2 s'
          and not exists (select from highlights h where h.run_id = r.run_id)
        order by ended_at desc
        """,
        (host,),
    )


def slow_steps(connection: Connection, run_id: str, *, times: float, least: float) -> list[SlowSteps]:
    """Return the steps and epochs that exceed both `times` the median and the median plus `least` seconds."""
    return records(
        connection,
        SlowSteps,
        """
            with timed as materialized (
                select kind, step, started_at, ended_at, extract(epoch from ended_at - started_at)::float8 as seconds
                from spans where run_id = %(run)s and kind in ('step', 'epoch') and ended_at is not null
            ), usual as (
                select kind, percentile_cont(0.5) within group (order by seconds) as usual
                from timed group by kind having count(*) >= 5
            )
            select distinct on (kind) kind, count(*) over (partition by kind) as n, step, started_at, ended_at, usual,
                   seconds as slowest
            from timed join usual using (kind)
            where seconds > %(times)s * usual and seconds > usual + %(least)s
            order by kind, seconds desc
            """,
        {"run": run_id, "times": times, "least": least},
    )
