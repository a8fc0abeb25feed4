"""Resolution of selectors to runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.core.selectors import Selector
from hypergauge.sql.ingest.choices import Choice
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records, value

__all__ = [
    "ExperimentInfo",
    "RunInfo",
    "abbreviated_ids",
    "check_owner",
    "has_runs",
    "list_experiments",
    "runs_by_id",
    "select_run",
    "select_runs",
    "with_sharing",
    "workload_ids",
]

# With this many hex digits, two of a million random ids collide in one of five hundred databases.
_LEAST_DIGITS = 12
_OF_GPUS = ("nvml", "dcgm", "amd", "jetson", "apple", "intel")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Run with its position in the experiment. Times are aware datetimes.

    `job` is the executor's job, such as ``slurm 4711``; `accounting` is the executor's record of resource usage.
    `full_label` is ``run_label`` in SQL: ``20/1/3`` for the latest attempt, ``20/1/3@1`` for an earlier one. `exporters` are
    those that its row chose.
    """

    run_id: str
    mlflow_run_id: str | None
    experiment_id: int
    workload: int
    position: int
    attempt: int
    name: str
    owner: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    duration: float | None
    exit_code: int | None
    reason: str | None
    command: str
    environment: str
    collocation: str
    devices: str
    params: dict[str, Any]
    host: str
    keep: bool
    simulated: bool
    full_label: str
    profilers: str = ""
    job: str | None = None
    accounting: dict[str, Any] | None = None
    note: str | None = None
    exporters: Choice | None = None

    @property
    def label(self) -> str:
        """Selector of the run's position: ``20/1/3``."""
        return f"{self.experiment_id}/{self.workload}/{self.position}"

    @property
    def chose_no_processes(self) -> bool:
        """Return whether its row chose exporters, and not the one of its processes."""
        return self.exporters is not None and "process" not in self.exporters

    @property
    def chose_no_gpus(self) -> bool:
        """Return whether its row chose exporters, and none of GPUs."""
        return self.exporters is not None and self.exporters.keys().isdisjoint(_OF_GPUS)

    @property
    def ended_early(self) -> bool:
        """Return whether it has failed, was stopped or reached a time limit."""
        return self.status not in ("finished", "running", "pending")


def with_sharing(title: str, runs: Iterable[RunInfo]) -> str:
    """Return a title with the ways in which runs share a GPU: ``20/1/3 wide · MPS``."""
    ways = dict.fromkeys(run.collocation for run in runs if run.collocation not in ("-", ""))
    return " · ".join(filter(None, (title, ", ".join(ways))))


@dataclass(frozen=True, slots=True)
class ExperimentInfo:
    """Experiment with the states of its runs (latest attempts)."""

    experiment_id: int
    name: str
    source: str
    created_at: datetime
    workloads: int
    runs: int
    finished: int
    failed: int
    stopped: int
    running: int


_RUNS = """
    select run_id, mlflow_run_id, experiment_id, workload, position, attempt, name, owner, r.status, r.started_at,
           r.ended_at, extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8 as duration, exit_code,
           coalesce(r.reason, case when r.status = 'pending' then j.reason end) as reason,
           command, environment, collocation, devices, params, r.host, keep,
           on_simulated_gpus(r) as simulated, r.profilers, j.executor || coalesce(' ' || j.native_id, '') as job,
           case when a.run_id is not null then jsonb_strip_nulls(to_jsonb(a) - 'run_id') end as accounting, r.note,
           run_label(w, r) as full_label, r.exporters
    from runs r join workloads w using (workload_id) left join jobs j using (job) left join accounting a using (run_id)
"""


def select_runs(connection: Connection, selectors: Sequence[str], *, every_attempt: bool = False) -> list[RunInfo]:
    """Return the selected runs in order, each once. Without selectors, return all latest attempts.

    With `every_attempt`, a selector without an attempt selects all attempts.

    Raises
    ------
    BadRequest
        A selector is malformed, selects nothing, or is the prefix of several ids.
    """
    if not selectors:
        return _query(connection, _LATEST, {})
    found: dict[str, RunInfo] = {}
    for text in selectors:
        for run in _select(connection, Selector.parse(text), text, every_attempt):
            found.setdefault(run.run_id, run)
    return list(found.values())


def has_runs(connection: Connection, experiment: int) -> bool:
    """Return whether an experiment has runs."""
    return value(
        connection,
        bool,
        "select exists (select from runs join workloads using (workload_id) where experiment_id = %s)",
        (experiment,),
    )


def select_run(connection: Connection, selector: str) -> RunInfo:
    """Return the only run that `selector` selects.

    Raises
    ------
    BadRequest
        The selector is malformed, or does not select exactly one run.
    """
    runs = select_runs(connection, [selector])
    if len(runs) > 1:
        raise BadRequest(f"{selector} names {len(runs)} runs; name one, such as {runs[0].label}")
    return runs[0]


def runs_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, RunInfo]:
    """Return runs by prefix of their id, ours or MLflow's. Prefixes without a run are left out.

    Raises
    ------
    BadRequest
        A prefix fits several runs.
    """
    found: dict[str, RunInfo] = {}
    for run in _query(
        connection,
        f"select * from ({_RUNS}) runs where run_id ^@ any(%(ids)s) or mlflow_run_id ^@ any(%(ids)s)",  # noqa: S608
        {"ids": list(ids)},
    ):
        for one in ids:
            if run.run_id.startswith(one) or (run.mlflow_run_id or "").startswith(one):
                if one in found:
                    raise BadRequest(f"{one} is the beginning of several runs' ids; write more of it")
                found[one] = run
    return found


def abbreviated_ids(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the shortest unique prefix of each id among our and MLflow's ids, at least twelve digits."""
    others = column(
        connection,
        """
        select id from (select run_id as id from runs union all select mlflow_run_id from runs) ids
        where left(id, %(digits)s) in (select left(one, %(digits)s) from unnest(%(ids)s::text[]) as one)
        """,
        {"ids": list(run_ids), "digits": _LEAST_DIGITS},
    )

    def digits(run_id: str) -> int:
        numbers = range(_LEAST_DIGITS, len(run_id))
        taken = (n for n in numbers if any(one.startswith(run_id[:n]) for one in others if one != run_id))
        return max(taken, default=_LEAST_DIGITS - 1) + 1

    return [run_id[: digits(run_id)] for run_id in run_ids]


def workload_ids(connection: Connection, run_ids: Sequence[str]) -> list[int]:
    """Return the database's workload ids of runs, in order."""
    return column(
        connection,
        "select distinct workload_id from runs where run_id = any(%s) order by workload_id",
        (list(run_ids),),
    )


def check_owner(connection: Connection, owner: str) -> None:
    """Check that an owner has runs in this database.

    Raises
    ------
    BadRequest
        The owner has no runs. The message suggests the owner with the most similar name.
    """
    owners = column(connection, "select distinct owner from runs order by owner")
    if owner not in owners:
        raise BadRequest(f"{owner!r} has no runs here{did_you_mean(owner, owners)}")


def list_experiments(connection: Connection, owner: str | None = None) -> list[ExperimentInfo]:
    """Return experiments by id. With `owner`, return that owner's experiments, with counts of that owner's runs only."""
    return records(
        connection,
        ExperimentInfo,
        """
            with latest as (
                select distinct on (workload_id, position) * from runs
                where %(owner)s::text is null or owner = %(owner)s order by workload_id, position, attempt desc)
            select e.experiment_id, e.name, e.source, e.created_at, count(distinct w.workload_id) as workloads,
                   count(l.run_id) as runs, count(*) filter (where l.status = 'finished') as finished,
                   count(*) filter (where l.status in ('failed', 'timeout')) as failed,
                   count(*) filter (where l.status = 'stopped') as stopped,
                   count(*) filter (where l.status in ('pending', 'running')) as running
            from experiments e left join workloads w using (experiment_id) left join latest l using (workload_id)
            where %(owner)s::text is null or l.run_id is not null
            group by e.experiment_id, e.name, e.source, e.created_at order by e.experiment_id
            """,
        {"owner": owner},
    )


_LATEST = f"""
    select * from (select distinct on (experiment_id, workload, position) * from ({_RUNS}) runs
                   order by experiment_id, workload, position, attempt desc) latest
"""  # noqa: S608 - only our own text


def _select(connection: Connection, selector: Selector, text: str, every_attempt: bool) -> list[RunInfo]:
    if selector.prefix is not None:
        matching = _query(
            connection,
            _RUNS + "where run_id like %(prefix)s or mlflow_run_id like %(prefix)s order by run_id",
            {"prefix": selector.prefix + "%"},
        )
        if len(matching) > 1:
            raise BadRequest(f"{text} is the beginning of {len(matching)} runs' ids; write more of it")
        if not matching:
            raise BadRequest(f"no run's id begins with {text}")
        return matching
    latest = selector.attempt is None and not every_attempt
    source = _LATEST if latest else f"select * from ({_RUNS}) runs"  # noqa: S608
    runs = _query(
        connection,
        source
        + """
        where experiment_id = %(experiment)s and (%(workload)s::int is null or workload = %(workload)s)
          and (%(position)s::int is null or position = %(position)s)
          and (%(attempt)s::int is null or attempt = %(attempt)s)
        order by workload, position, attempt
        """,
        {
            "experiment": selector.experiment,
            "workload": selector.workload,
            "position": selector.position,
            "attempt": selector.attempt,
        },
    )
    if not runs:
        raise BadRequest(f"{text} names no run{_what_there_is(connection, selector)}")
    return runs


def _what_there_is(connection: Connection, selector: Selector) -> str:
    """Return the valid choices at the level where `selector` fails."""
    ids = [str(one.experiment_id) for one in list_experiments(connection)]
    if str(selector.experiment) not in ids:
        none = "; there is no experiment yet, and `bench demo` makes one"
        return f"; existing experiments: {', '.join(ids)}" if ids else none
    here = [run for run in _query(connection, _LATEST, {}) if run.experiment_id == selector.experiment]
    workloads = sorted({run.workload for run in here})
    if selector.workload is not None and selector.workload not in workloads:
        names = ", ".join(f"{selector.experiment}/{workload}" for workload in workloads)
        return f"; there are the workloads {names}" if names else "; it has no runs yet"
    labels = [run.label for run in here if run.workload == selector.workload]
    return f"; there are the runs {', '.join(labels)}" if labels else "; it has no runs yet"


def _query(connection: Connection, statement: str, values: dict[str, Any]) -> list[RunInfo]:
    return records(connection, RunInfo, statement, values)
