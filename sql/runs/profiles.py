"""Profiles of runs: what kernels, operators and functions took."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import first_value, records, value

__all__ = [
    "Profile",
    "ProfileEntry",
    "ProfileStack",
    "next_number",
    "profile_entries",
    "profile_phases",
    "profile_stacks",
    "profiles",
    "steps_within",
    "store_profile",
]


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of a run.

    Attributes
    ----------
    number
        1 for that of the whole run; profiles of a live run follow.
    started_at, ended_at
        First and last recorded time; of a report without times those of the run.
    rate
        Samples per second; ``None`` where every call is recorded.
    problem
        Why its report could not be read.
    """

    run_id: str
    profiler: str
    number: int
    started_at: datetime | None
    ended_at: datetime | None
    rate: float | None
    problem: str | None

    @property
    def seconds(self) -> float:
        """Return its duration, at least a moment."""
        if self.started_at is None or self.ended_at is None:
            return 1.0
        return max(0.001, (self.ended_at - self.started_at).total_seconds())


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Time of one name in seconds.

    Attributes
    ----------
    kind
        Kind of the name, see `hypergauge.scheduler.profilers.reports.stacks.Stack`.
    phase
        Phase of the run; empty where it is unknown.
    calls
        Number of calls; ``None`` where samples were taken.
    total
        Time with everything that it calls.
    self
        Time without that.
    share
        Share of `self` in that of all entries of its kind.
    """

    kind: str
    name: str
    phase: str
    calls: int | None
    total: float
    self: float
    share: float


@dataclass(frozen=True, slots=True)
class ProfileStack:
    """Path of names, the outermost first, with the time of the innermost itself."""

    kind: str
    frames: list[str]
    calls: int | None
    self: float


def store_profile(
    connection: Connection,
    run_id: str,
    profiler: str,
    number: int,
    *,
    times: tuple[float | None, float | None] = (None, None),
    rate: float | None = None,
    problem: str | None = None,
    entries: Iterable[ProfileEntry] = (),
    stacks: Iterable[ProfileStack] = (),
) -> None:
    """Store a profile, which replaces an earlier one of the same number.

    Parameters
    ----------
    times
        Start and end in Unix seconds; ``None`` for those of the run.
    """
    key = (run_id, profiler, number)
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("delete from profiles where (run_id, profiler, number) = (%s, %s, %s)", key)
        cursor.execute(
            """
            insert into profiles (run_id, profiler, number, started_at, ended_at, rate, problem)
            select run_id, %s, %s, coalesce(to_timestamp(%s), started_at), coalesce(to_timestamp(%s), ended_at), %s, %s
            from runs where run_id = %s
            """,
            (profiler, number, *times, rate, problem, run_id),
        )
        if not cursor.rowcount:  # the run was removed meanwhile
            return
        with cursor.copy(
            "copy profile_entries (run_id, profiler, number, kind, name, phase, calls, total, self, share) from stdin"
        ) as copy:
            for one in entries:
                copy.write_row((*key, one.kind, one.name, one.phase, one.calls, one.total, one.self, one.share))
        with cursor.copy(
            "copy profile_stacks (run_id, profiler, number, kind, frames, calls, self) from stdin"
        ) as copy:
            for stack in stacks:
                copy.write_row((*key, stack.kind, stack.frames, stack.calls, stack.self))


def next_number(connection: Connection, run_id: str, profiler: str) -> int:
    """Return the number of the next profile of a live run; 1 is kept for that of the whole run."""
    found = first_value(
        connection, int, "select max(number) from profiles where run_id = %s and profiler = %s", (run_id, profiler)
    )
    return max(found or 1, 1) + 1


def profiles(connection: Connection, run_ids: Collection[str]) -> list[Profile]:
    """Return the profiles of runs, by profiler and number."""
    return records(
        connection,
        Profile,
        """
        select run_id, profiler, number, started_at, ended_at, rate, problem from profiles
        where run_id = any(%s) order by run_id, profiler, number
        """,
        (list(run_ids),),
    )


def profile_entries(connection: Connection, profile: Profile, phase: str | None = None) -> list[ProfileEntry]:
    """Return the entries of a profile, those with the most time of their own first.

    Parameters
    ----------
    phase
        Only this phase; by default all together, as one entry without a phase.
    """
    return records(
        connection,
        ProfileEntry,
        """
        select kind, name, coalesce(%(phase)s, '') as phase, sum(calls)::bigint as calls, sum(total) as total,
               sum(self) as self, coalesce(sum(self) / nullif(sum(sum(self)) over (partition by kind), 0), 0) as share
        from profile_entries
        where (run_id, profiler, number) = (%(run)s, %(profiler)s, %(number)s) and (%(phase)s::text is null or phase = %(phase)s)
        group by kind, name order by self desc, total desc, kind, name
        """,
        {"run": profile.run_id, "profiler": profile.profiler, "number": profile.number, "phase": phase},
    )


def profile_phases(connection: Connection, chosen: Sequence[Profile]) -> list[str]:
    """Return the phases that profiles have entries of."""
    rows = connection.execute(
        """
        select distinct phase from profile_entries
        where (run_id, profiler, number) in (select * from unnest(%s::text[], %s::text[], %s::integer[])) and phase <> ''
        order by phase
        """,
        ([one.run_id for one in chosen], [one.profiler for one in chosen], [one.number for one in chosen]),
    )
    return [phase for (phase,) in rows]


def profile_stacks(connection: Connection, profile: Profile) -> list[ProfileStack]:
    """Return the heaviest stacks of a profile."""
    return records(
        connection,
        ProfileStack,
        """
        select kind, frames, calls, self from profile_stacks
        where (run_id, profiler, number) = (%s, %s, %s) order by self desc, frames
        """,
        (profile.run_id, profile.profiler, profile.number),
    )


def steps_within(connection: Connection, profile: Profile) -> int:
    """Return the number of steps that the run has tracked within a profile, over all of its processes."""
    return value(
        connection,
        int,
        """
        select count(*) from spans join profiles p using (run_id)
        where (run_id, p.profiler, p.number) = (%s, %s, %s) and kind = 'step'
          and spans.started_at >= p.started_at and spans.started_at < p.ended_at
        """,
        (profile.run_id, profile.profiler, profile.number),
    )
