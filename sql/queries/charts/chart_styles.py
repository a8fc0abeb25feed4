"""Styles of charted runs and workloads, and the times at which runs shared their GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.runs.selection import workload_ids
from hypergauge.sql.server.database import Connection

__all__ = ["ChartStyle", "run_styles", "shared_times", "workload_styles"]


@dataclass(frozen=True, slots=True)
class ChartStyle:
    """Style of a run or workload, the same in every picture: indices of its color and stroke, as in `chart_style`."""

    color: int
    stroke: int


def run_styles(connection: Connection, run_ids: Sequence[str]) -> dict[str, ChartStyle]:
    """Return the styles of runs on one chart, by label."""
    rows = connection.execute("select run, color::integer, stroke::integer from run_titles(%s)", (list(run_ids),))
    return {label: ChartStyle(color, stroke) for label, color, stroke in rows.fetchall()}


def workload_styles(connection: Connection, run_ids: Sequence[str]) -> dict[str, ChartStyle]:
    """Return the styles of the runs' workloads on one chart, by label."""
    rows = connection.execute(
        "select split_part(workload, ' ', 1), color::integer, stroke::integer from workload_titles(%s)",
        (workload_ids(connection, run_ids),),
    )
    return {label: ChartStyle(color, stroke) for label, color, stroke in rows.fetchall()}


def shared_times(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Return the intervals in which other runs used a GPU of a run, in seconds since its start, by label.

    Runs that never shared a GPU are missing.
    """
    rows = connection.execute(
        """
        select run_label(w, r), array_agg(extract(epoch from s.started_at - r.started_at)::float8 order by s.started_at),
               array_agg(extract(epoch from s.ended_at - r.started_at)::float8 order by s.started_at)
        from shared_times(%s) s join runs r using (run_id) join workloads w using (workload_id) group by 1
        """,
        (list(run_ids),),
    ).fetchall()
    return {label: list(zip(starts, ends, strict=True)) for label, starts, ends in rows}
