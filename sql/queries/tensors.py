"""Reductions of tensors, streamed step by step as stored: an array of each reduction."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import numpy.typing as npt
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from hypergauge.client.tensors import REDUCTIONS
from hypergauge.sql.ingest.tensors import TensorSet, TensorStep
from hypergauge.sql.server.database import Connection

__all__ = ["collections_of", "expected_rows", "sets_of", "steps_of"]

_ARRAY_HEADER_BYTES = 20
_ELEMENT = np.dtype([("bytes", ">i4"), ("value", ">f4")])

_STEPS = sql.SQL(
    """
    select step, extract(epoch from time)::double precision, pid, sizes, {reductions} from tensor_steps
    where run_id = %(run)s and tensor_set = %(set)s
      and (%(times)s::tstzmultirange is null or %(times)s::tstzmultirange @> time)
    order by step, time
    """
).format(
    # Without nulls, all elements have the same length.
    reductions=sql.SQL(", ").join(
        sql.SQL("array_replace({}, null, 'NaN')").format(sql.Identifier(one)) for one in REDUCTIONS
    )
)


def sets_of(connection: Connection, run_id: str, collection: str | None = None) -> list[TensorSet]:
    """Return the sets of a run, by collection."""
    found = connection.execute(
        """
        select tensor_set, collection, names, sizes from tensor_sets
        where run_id = %(run)s and (%(collection)s::text is null or collection = %(collection)s)
        order by collection, tensor_set
        """,
        {"run": run_id, "collection": collection},
    ).fetchall()
    return [TensorSet(*row) for row in found]


def steps_of(connection: Connection, run_id: str, tensor_set: str, times: str | None = None) -> Generator[TensorStep]:
    """Yield the steps of a set in their order. A reduction that was not computed is missing.

    The caller must close a generator that is not exhausted: the connection is busy until then.

    Parameters
    ----------
    times
        Text of a ``tstzmultirange`` that holds the times; by default all.
    """
    with connection.cursor() as cursor:
        cursor.adapters.register_loader(cursor.adapters.types["float4"].array_oid, _RealsLoader)
        found = cursor.stream(_STEPS, {"run": run_id, "set": tensor_set, "times": times}, binary=True)
        for step, time, pid, sizes, *arrays in found:
            known = {name: array for name, array in zip(REDUCTIONS, arrays, strict=True) if array is not None}
            yield TensorStep(tensor_set, step, time, pid, sizes, known)


def collections_of(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the names of the runs' collections."""
    found = connection.execute(
        "select distinct collection from tensor_sets where run_id = any(%s) order by 1", (list(run_ids),)
    ).fetchall()
    return [name for (name,) in found]


def expected_rows(connection: Connection, run_ids: Sequence[str]) -> int:
    """Return the number of rows of runs: of each step, the tensors of its set."""
    row = connection.execute(
        """
        select coalesce(sum(cardinality(names)), 0)::bigint
        from tensor_sets join tensor_steps using (run_id, tensor_set) where run_id = any(%s)
        """,
        (list(run_ids),),
    ).fetchone()
    assert row is not None
    return int(row[0])


class _RealsLoader(Loader):
    """Loader of ``real[]`` without nulls."""

    format = Format.BINARY

    def load(self, data: Buffer) -> npt.NDArray[np.float32]:
        if len(data) <= _ARRAY_HEADER_BYTES:
            return np.empty(0, np.float32)
        return np.frombuffer(data, _ELEMENT, offset=_ARRAY_HEADER_BYTES)["value"].astype(np.float32)
