"""Throughput of runs by their tracked steps, and the peaks of their devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.charts.axes import Interval
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["Peak", "Throughput", "peaks", "throughputs"]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of a run; the view ``run_throughput`` defines the values. ``None`` is what the steps do not know."""

    run_id: str
    steps: int
    seconds: float
    steps_per_second: float | None
    samples: float | None
    tokens: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    flops_per_second: float | None
    data_wait_share: float | None


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak of a run's devices together.

    Attributes
    ----------
    flops
        ``None`` if that of a device is unknown.
    unknown
        Model of the first unknown device; ``None`` for the host, and if all are known.
    """

    run_id: str
    flops: float | None
    unknown: str | None


def throughputs(
    connection: Connection, run_ids: Sequence[str], within: Mapping[str, Interval]
) -> dict[str, Throughput]:
    """Return the throughput of runs by id; `within` limits some runs to a part. Runs without tracked steps are missing."""
    parts = [within.get(run) for run in run_ids]
    rows = records(
        connection,
        Throughput,
        """
        select run_id, t.* from unnest(%(runs)s::text[], %(times)s::tstzmultirange[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
               as requested (run_id, times, starts, ends)
        cross join lateral throughput(run_id, coalesce(times, tstzmultirange(tstzrange(starts, ends, '[]')))) t
        """,
        {
            "runs": list(run_ids),
            "times": [one.part.times if one and one.part else None for one in parts],
            "starts": [one and one.started_at for one in parts],
            "ends": [one and one.ended_at for one in parts],
        },
    )
    return {row.run_id: row for row in rows}


def peaks(connection: Connection, run_ids: Sequence[str], unknown: float | None = None) -> dict[str, Peak]:
    """Return the peak FLOPS of the devices of runs by id; `unknown` is that of a device of an unknown model."""
    rows = records(
        connection,
        Peak,
        """
        select run_id, peak_flops(run_id, %(unknown)s::float8) as flops,
               (select min(model) from device_peaks(run_id) where peak is null) as unknown
        from unnest(%(runs)s::text[]) as run_id
        """,
        {"runs": list(run_ids), "unknown": unknown},
    )
    return {row.run_id: row for row in rows}
