"""Workloads of several files in one experiment, numbered anew where numbers are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypergauge.sql.server.database import Connection

__all__ = ["files_of_runs", "record", "take_over", "workload_numbers"]


def workload_numbers(connection: Connection, experiment: int, source: str, written: Sequence[int]) -> dict[int, int]:
    """Return the numbers in an experiment by those that are written in the file `source`.

    They are the same, unless a workload of another file has that number: then it is the next that nobody has.
    """
    # A workload that came without a file, in a capsule, is of the file that the experiment belongs to.
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
    """Keep the numbers of a file's workloads for it."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into file_workloads (experiment_id, source, written, workload) values (%s, %s, %s, %s)"
            " on conflict do nothing",
            [(experiment, source, *number) for number in numbers.items()],
        )


def files_of_runs(connection: Connection, experiment: int, run_ids: Sequence[str]) -> list[str]:
    """Return the files whose rows had these runs of an experiment, by our ids or MLflow's."""
    rows = connection.execute(
        """
        select distinct coalesce(f.source, e.source)
        from runs join workloads using (workload_id) join experiments e using (experiment_id)
        left join file_workloads f using (experiment_id, workload)
        where experiment_id = %(experiment)s and (run_id = any(%(runs)s) or mlflow_run_id = any(%(runs)s)) order by 1
        """,
        {"experiment": experiment, "runs": list(run_ids)},
    ).fetchall()
    return [source for (source,) in rows]


def take_over(connection: Connection, experiment: int, old: str, source: str) -> None:
    """Make the workloads of a file that was moved those of its new place."""
    connection.execute(
        "update file_workloads set source = %s where experiment_id = %s and source = %s", (source, experiment, old)
    )
