"""Neighbours of a run: concurrent runs, with the times of their starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["NeighbourChange", "neighbour_changes", "other_runs"]


@dataclass(frozen=True, slots=True)
class NeighbourChange:
    """Start or end of a neighbour during the run `run_id`.

    Attributes
    ----------
    at
        Seconds since the start of `run_id`.
    run
        Selector of the neighbour: ``20/1/2``, or ``20/1/2@1`` for an earlier attempt. ``another run`` for an unknown
        neighbour: an import has no details of runs that were not exported.
    what
        ``began`` or ``ended``.
    status
        Final status of the neighbour; ``None`` for a start.
    """

    run_id: str
    at: float
    run: str
    what: str
    status: str | None


def neighbour_changes(
    connection: Connection, run_ids: Sequence[str], margin: float = 1.0
) -> dict[str, list[NeighbourChange]]:
    """Return the starts and ends of neighbours during runs, by run and in order of time.

    Neighbours are the runs of the same workload on the same host, and runs of any workload on the same GPU.

    Parameters
    ----------
    margin
        Seconds at both ends of a run to ignore: runs of a workload are released together, but do not end at exactly
        the same millisecond.
    """
    rows = records(
        connection,
        NeighbourChange,
        """
            select distinct mine.run_id, extract(epoch from c.at - mine.started_at)::float8 as at,
                   run_label(w, other) as run, c.what, case when c.what = 'ended' then other.status end as status
            from runs mine
            join placements p using (run_id)
            join placements n on n.host = p.host and n.origin = p.origin and n.run_id <> p.run_id
                 and n.started_at < coalesce(mine.ended_at, now())
                 and (n.ended_at is null or n.ended_at > mine.started_at)
            join runs other on other.run_id = n.run_id
            join workloads w on w.workload_id = other.workload_id
            cross join lateral (values ('began', other.started_at), ('ended', other.ended_at)) as c (what, at)
            where mine.run_id = any(%(runs)s) and (other.workload_id = mine.workload_id or n.gpu_uuid = p.gpu_uuid)
              and c.at >= mine.started_at + make_interval(secs => %(margin)s)
              and c.at <= coalesce(mine.ended_at, now()) - make_interval(secs => %(margin)s)
            union all
            select distinct mine.run_id, extract(epoch from x.started_at - mine.started_at)::float8, 'another run',
                   case when x.more > 0 then 'began' else 'ended' end, null
            from runs mine
            cross join lateral (
                select rs.started_at, rs.others - lag(rs.others) over (partition by place_id order by rs.started_at) as more
                from run_sets rs join places p using (place_id)
                where rs.run_id = mine.run_id and p.kind = 'gpu') x
            where mine.run_id = any(%(runs)s) and x.more <> 0
              and x.started_at >= mine.started_at + make_interval(secs => %(margin)s)
              and x.started_at <= coalesce(mine.ended_at, now()) - make_interval(secs => %(margin)s)
            order by 1, 2, 3
            """,
        {"runs": list(run_ids), "margin": margin},
    )
    found: dict[str, list[NeighbourChange]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row)
    return found


def other_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return by run the selectors of other workloads' concurrent runs on the same GPU, or for a run without one on its host.

    Runs without any are missing.

    For an imported run, ``another run`` stands for runs that were not exported with it.
    """
    rows = connection.execute(
        """
        select run_id, array_agg(distinct label order by label)
        from (select mine.run_id, run_label(w, other) as label
              from runs mine
              join placements p using (run_id)
              join placements n on (n.host, n.origin) = (p.host, p.origin) and (n.gpu_uuid = p.gpu_uuid or mine.devices = '')
                   and n.started_at < coalesce(p.ended_at, now()) and (n.ended_at is null or n.ended_at > p.started_at)
              join runs other on other.run_id = n.run_id and other.workload_id <> mine.workload_id
              join workloads w on w.workload_id = other.workload_id
              where mine.run_id = any(%(runs)s)
              union all
              select mine.run_id, 'another run'
              from runs mine join run_sets rs using (run_id) join places p using (place_id)
              where mine.run_id = any(%(runs)s) and rs.others > 0 and (p.kind = 'gpu' or mine.devices = '')) found
        group by run_id
        """,
        {"runs": list(run_ids)},
    ).fetchall()
    return dict(rows)
