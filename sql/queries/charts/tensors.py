"""Reductions of tensors: what runs have, and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.queries.charts.charts import Curve
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import first_value, records

__all__ = ["Selection", "TensorCollection", "extreme", "losses", "tensor_collections", "tensor_curves"]


@dataclass(frozen=True, slots=True)
class TensorCollection:
    """Tensors of a collection in a run: their names, in the order of the model, and the reductions that were computed."""

    run_id: str
    collection: str
    names: list[str]
    reductions: list[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Arguments of ``tensor_chart``.

    Attributes
    ----------
    collection
        ``None`` for all collections, with `over`.
    names
        ``None`` for all tensors.
    over
        Statistic over the tensors; ``None`` for each of them.
    """

    collection: str | None
    reduction: str
    names: tuple[str, ...] | None = None
    over: str | None = None


def tensor_collections(connection: Connection, run_ids: Sequence[str] | None) -> list[TensorCollection]:
    """Return the collections of tensors of some runs, or of the whole database."""
    return records(
        connection,
        TensorCollection,
        "select run_id, collection, names, reductions from tensor_collections(%(runs)s)",
        {"runs": None if run_ids is None else list(run_ids)},
    )


def tensor_curves(
    connection: Connection, run_ids: Sequence[str], metric: str, chosen: Selection, points: int
) -> list[Curve]:
    """Return the curves of tensors over seconds since each run's start, each with at most `points` points.

    The scope of a curve is its tensor, where `chosen` has names.
    """
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            select run_label(w, r) as label, %(metric)s as metric, coalesce(c.name, '') as scope,
                   array_agg(c.x order by c.x) as x, array_agg(c.value order by c.x) as value,
                   array_agg(c.low order by c.x) as low, array_agg(c.high order by c.x) as high
            from tensor_curves(%(runs)s, %(collection)s, %(reduction)s, %(names)s, %(over)s, %(points)s) c
            join runs r using (run_id) join workloads w using (workload_id) group by 1, 3
            """,
            {
                "metric": metric, "runs": list(run_ids), "collection": chosen.collection, "reduction": chosen.reduction,
                "names": None if chosen.names is None else list(chosen.names), "over": chosen.over, "points": points,
            },
        ).fetchall()  # fmt: skip


def losses(connection: Connection, run_ids: Sequence[str]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return the watched losses, by run id and name, in the order of time.

    Each has its seconds since the run's start, and the mean of the steps since the one before: NaN if any was not finite.
    """
    rows = connection.execute(
        """
        with rows as (
            select *, row_number() over (partition by run_id, name, pid, step order by time) as round
            from tensor_stats where run_id = any(%(runs)s) and collection = 'losses'
        ), points as (
            select run_id, name, max(time) as time, case when bool_or(nonfinite > 0) then 'NaN' else avg(mean) end as value
            from rows group by run_id, name, step, round
        )
        select run_id, p.name, array_agg(extract(epoch from p.time - r.started_at)::float8 order by p.time),
               array_agg(p.value order by p.time)
        from points p join runs r using (run_id) where p.value is not null group by run_id, p.name
        """,
        {"runs": list(run_ids)},
    ).fetchall()
    return {(run_id, name): list(zip(elapsed, values, strict=True)) for run_id, name, elapsed, values in rows}


def extreme(connection: Connection, run_id: str, chosen: Selection, start: float, stop: float | None) -> str:
    """Return the tensor with the extreme of `chosen`, whose ``over`` is ``min`` or ``max``, in an interval of seconds since the start."""
    order = "value" if chosen.over == "min" else "value desc"
    return str(
        first_value(
            connection,
            str,
            f"""
            select c.name from runs r cross join lateral tensor_chart(
                array[r.run_id], %(collection)s, %(reduction)s, null, null, r.started_at + make_interval(secs => %(start)s - 1e-6),
                r.started_at + make_interval(secs => coalesce(%(stop)s, %(start)s + 1e-3) - 1e-6)) c
            where r.run_id = %(run)s order by {order}, name limit 1
            """,  # noqa: S608 - only our own text
            {
                "run": run_id, "collection": chosen.collection, "reduction": chosen.reduction, "start": start, "stop": stop,
            },
        )
        or ""
    )  # fmt: skip
