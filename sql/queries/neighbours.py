"""Neighbours of a run, and when they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["NeighbourChange", "neighbour_changes", "strangers"]


@dataclass(frozen=True, slots=True)
class NeighbourChange:
    """A run that began or ended beside the run `run_id`.

    Attributes
    ----------
    at
        Seconds since the start of `run_id`.
    run
        What selects the neighbour: ``20/1/2``, and ``20/1/2@1`` where that is no longer its latest attempt. ``another run``
        where nothing else is known of it: an import brings no more of those that were not exported.
    what
        ``began`` or ``ended``.
    status
        How the neighbour ended; ``None`` where it began.
    """

    run_id: str
    at: float
    run: str
    what: str
    status: str | None


def neighbour_changes(
    connection: Connection, run_ids: Sequence[str], margin: float = 1.0
) -> dict[str, list[NeighbourChange]]:
    """Return what changed beside runs in the middle of them, by run and in the order of time.

    Neighbours are the runs of the same workload on the same host, and those of any workload on the same GPU.

    Parameters
    ----------
    margin
        Seconds at both ends of a run that are not its middle: runs of a workload are released together, but do not end
        at the same moment to the millisecond.
    """
    with connection.cursor(row_factory=class_row(NeighbourChange)) as cursor:
        rows = cursor.execute(
            """
            select distinct mine.run_id, extract(epoch from c.at - mine.started_at)::float8 as at,
                   format('%%s/%%s/%%s', w.experiment_id, w.workload, other.position)
                   || case when exists (select from runs later where later.workload_id = other.workload_id
                                        and later.position = other.position and later.attempt > other.attempt)
                      then '@' || other.attempt else '' end as run,
                   c.what, case when c.what = 'ended' then other.status end as status
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
        ).fetchall()
    found: dict[str, list[NeighbourChange]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row)
    return found


def strangers(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return by run what selects the runs of other workloads that were on its GPU meanwhile; most have none.

    Of an imported run, ``another run`` stands for those that were not exported with it.
    """
    rows = connection.execute(
        """
        select run_id, array_agg(distinct label order by label)
        from (select mine.run_id, run_label(w, other) as label
              from runs mine
              join placements p using (run_id)
              join placements n on (n.host, n.origin, n.gpu_uuid) = (p.host, p.origin, p.gpu_uuid)
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
