"""Complete relations by run, for data frames and exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.sql.server.database import Connection

__all__ = ["check_quantities", "samples_of", "summaries_of"]

Table = tuple[list[str], list[tuple[Any, ...]]]


def check_quantities(connection: Connection, quantities: Sequence[str]) -> None:
    """Check that the catalog or a series has each quantity.

    Raises
    ------
    BadRequest
        A quantity is unknown. The message suggests the most similar name.
    """
    known = {name for (name,) in connection.execute("select distinct quantity from metrics").fetchall()}
    for quantity in quantities:
        if quantity not in known:
            measured = connection.execute("select distinct quantity from series where quantity is not null").fetchall()
            known |= {name for (name,) in measured}
        if quantity not in known:
            nearest = did_you_mean(quantity, sorted(known), "; `bench metrics` lists those that were measured")
            raise BadRequest(f"unknown quantity {quantity!r}{nearest}")


def samples_of(connection: Connection, run_ids: Sequence[str], quantities: Sequence[str] | None) -> Table:
    """Return columns and rows of ``run_samples``, in order of time."""
    return _table(
        connection,
        """
        select * from run_samples
        where run_id = any(%(runs)s) and (%(quantities)s::text[] is null or quantity = any(%(quantities)s))
        order by time, run_id, quantity
        """,
        {"runs": list(run_ids), "quantities": None if quantities is None else list(quantities)},
    )


def summaries_of(connection: Connection, run_ids: Sequence[str], quantities: Sequence[str] | None = None) -> Table:
    """Return columns and rows of ``run_summary``, with the label of each run as in ``run_samples``."""
    return _table(
        connection,
        """
        select s.run_id, l.run, s.quantity, s.scope, s.metric, s.device, s.n, s.seconds, s.mean, s.min, s.max, s.p50, s.p95, s.total
        from runs r join workloads w using (workload_id) cross join lateral (select run_label(w, r) as run offset 0) l
        join run_summary s using (run_id)
        where r.run_id = any(%(runs)s) and (%(quantities)s::text[] is null or quantity = any(%(quantities)s))
        order by experiment_id, workload, position, attempt, quantity, scope, metric, device
        """,
        {"runs": list(run_ids), "quantities": None if quantities is None else list(quantities)},
    )


def _table(connection: Connection, statement: str, values: dict[str, Any]) -> Table:
    cursor = connection.execute(statement.encode(), values)
    return [column.name for column in cursor.description or ()], cursor.fetchall()
