"""Parts of runs: a range of the time since a run's start, a phase, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["RunPart", "parts_of"]


@dataclass(frozen=True, slots=True)
class RunPart:
    """Part of a run.

    Attributes
    ----------
    times
        Text of the ``tstzmultirange`` of its samples. It is open where it reaches the run's start or end: the last sample of
        a run comes after its end.
    started_at, ended_at
        First start and last end.
    starts, ends
        Its intervals within the run, in seconds since the run's start, in order.
    """

    run_id: str
    times: str
    started_at: datetime
    ended_at: datetime
    starts: list[float]
    ends: list[float]

    @property
    def reaches_end(self) -> bool:
        """Whether the part goes on to the end of the run."""
        return self.times.endswith(",)}")

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return sum(end - start for start, end in zip(self.starts, self.ends, strict=True))

    def holds(self, seconds: float) -> bool:
        """Return whether the part holds a time since the run's start."""
        return any(start <= seconds <= end for start, end in zip(self.starts, self.ends, strict=True))

    def meets(self, start: float, end: float) -> bool:
        """Return whether the part and an interval since the run's start have a time in common."""
        return any(start < mine[1] and mine[0] < end for mine in zip(self.starts, self.ends, strict=True))


def parts_of(
    connection: Connection, run_ids: Sequence[str], first: float | None, last: float | None, phase: str | None
) -> dict[str, RunPart]:
    """Return the parts of runs by id. Runs without such a part are missing.

    Parameters
    ----------
    first, last
        Range in seconds since each run's start; ``None`` for an open end.
    phase
        Name of a phase: all of its spans count; ``None`` for the whole run.
    """
    rows = records(
        connection,
        RunPart,
        """
        with requested as (
            select run_id, started_at, coalesce(ended_at, now()) as ended_at,
                   tstzrange(started_at + make_interval(secs => nullif(%(first)s::float8, 0)),
                             case when %(last)s::float8 < extract(epoch from coalesce(ended_at, 'infinity') - started_at)
                                  then started_at + make_interval(secs => %(last)s) end) as range
            from runs where run_id = any(%(runs)s) and started_at is not null
        ), phases as (
            select run_id, range_agg(tstzrange(s.started_at, greatest(s.started_at, coalesce(s.ended_at, r.ended_at, 'infinity')))) as times
            from spans s join runs r using (run_id)
            where run_id = any(%(runs)s) and s.kind = 'phase' and s.name = %(phase)s group by run_id
        ), parts as (
            select run_id, started_at, ended_at,
                   tstzmultirange(range) * case when %(phase)s::text is null then '{(,)}' else times end as times
            from requested left join phases using (run_id)
        )
        select p.run_id, p.times::text as times, min(lower(piece)) as started_at, max(upper(piece)) as ended_at,
               array_agg(extract(epoch from lower(piece) - p.started_at)::float8 order by piece) as starts,
               array_agg(extract(epoch from upper(piece) - p.started_at)::float8 order by piece) as ends
        from parts p cross join lateral unnest(p.times * tstzmultirange(tstzrange(p.started_at, p.ended_at))) as piece
        group by p.run_id, p.times
        """,
        {"runs": list(run_ids), "first": first, "last": last, "phase": phase},
    )
    return {row.run_id: row for row in rows}
