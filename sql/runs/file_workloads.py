"""Workloads of several files in one experiment, renumbered to avoid conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column

__all__ = ["files_of_runs", "record", "take_over", "workload_numbers"]


def workload_numbers(connection: Connection, experiment: int, source: str, written: Sequence[int]) -> dict[int, int]:
    """Return the workload numbers in an experiment by the numbers in the file `source`.

    Both are equal, unless a workload of another file has the number. The workload then receives the next free number.
    """
    # An imported workload has no file; it counts as part of the experiment's file.
    known = connection.execute(
        """
        select coalesce(f.source, e.source), f.written, workload
        from experiments e join (
            (select experiment_id, workload from workloads union select experiment_id, workload from file_workloads) there
            left join file_workloads f using (experiment_id, workload)
        ) using (experiment_id)
        where experiment_id = %s
        """,
        (experiment,),
    ).fetchall()
    numbers = {number: workload for owner, number, workload in known if owner == source and number is not None}
    taken = {workload for owner, _, workload in known if owner != source} | set(numbers.values())
    free = max([*taken, *written], default=0) + 1
    for number in dict.fromkeys(written):
        if number in numbers:
            continue
        if number in taken:
            numbers[number], free = free, free + 1
        else:
            numbers[number] = number
    return {number: numbers[number] for number in written}


def record(connection: Connection, experiment: int, source: str, numbers: Mapping[int, int]) -> None:
    """Store the numbers of a file's workloads."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into file_workloads (experiment_id, source, written, workload) values (%s, %s, %s, %s)"
            " on conflict do nothing",
            [(experiment, source, *number) for number in numbers.items()],
        )


def files_of_runs(connection: Connection, experiment: int, run_ids: Sequence[str]) -> list[str]:
    """Return the files that defined these runs of an experiment; `run_ids` are our ids or MLflow's."""
    return column(
        connection,
        """
        select distinct coalesce(f.source, e.source)
        from runs join workloads using (workload_id) join experiments e using (experiment_id)
        left join file_workloads f using (experiment_id, workload)
        where experiment_id = %(experiment)s and (run_id = any(%(runs)s) or mlflow_run_id = any(%(runs)s)) order by 1
        """,
        {"experiment": experiment, "runs": list(run_ids)},
    )


def take_over(connection: Connection, experiment: int, old: str, source: str) -> None:
    """Assign the workloads of a moved file to its new path."""
    connection.execute(
        "update file_workloads set source = %s where experiment_id = %s and source = %s", (source, experiment, old)
    )
