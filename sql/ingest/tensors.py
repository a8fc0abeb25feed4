"""Reductions of tensors from the client: a row for each set and step, with an array of each reduction."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from hypergauge.client.tensors import REDUCTIONS
from hypergauge.sql.server.database import Connection

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["TensorSet", "TensorStep", "WatchProblem", "microseconds", "store_problems", "store_tensors", "stored_steps"]

_FLOAT4, _FLOAT4_ARRAY = 700, 1021  # PostgreSQL's ids of the types

_INSERT = sql.SQL(
    """
    insert into tensor_steps (run_id, tensor_set, step, time, pid, sizes, norm, {columns})
    select run_id, tensor_set, %s::bigint, to_timestamp(%s), %s::integer, %s::bigint[], %s::double precision, {values}
    from tensor_sets where run_id = %s and tensor_set = %s
    on conflict do nothing
    """
).format(
    columns=sql.SQL(", ").join(map(sql.Identifier, REDUCTIONS)),
    values=sql.SQL(", ").join([sql.SQL("%s::real[]")] * len(REDUCTIONS)),
)


@dataclass(frozen=True, slots=True)
class TensorSet:
    """Tensors of a collection, in the order of the arrays of their steps, with their numbers of elements."""

    tensor_set: str
    collection: str
    names: Sequence[str]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class WatchProblem:
    """Why the client did not record all of a run: its watch ended, or it `is_gap`, with a watch that goes on."""

    text: str
    is_gap: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TensorStep:
    """Reductions of a set at a step.

    Attributes
    ----------
    time
        Unix seconds.
    sizes
        Numbers of elements; ``None`` where they are those of the set.
    columns
        Values of each reduction, shape ``(tensors,)``. A value that is not finite is stored as null.
    """

    tensor_set: str
    step: int
    time: float
    pid: int | None
    sizes: Sequence[int] | None
    columns: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)

    @property
    def norm(self) -> float | None:
        """l2 norm of all tensors together, without those whose norm is not finite; ``None`` if that is none."""
        import numpy as np

        norms = self.columns.get("l2", np.empty(0, np.float32)).astype(np.float64)
        norms = norms[np.isfinite(norms)]
        return math.sqrt(float(norms @ norms)) if norms.size else None


def store_tensors(connection: Connection, run_id: str, sets: Iterable[TensorSet], steps: Iterable[TensorStep]) -> None:
    """Store sets and steps of one run and keep existing ones. Steps of unknown sets or of a removed run are left out."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.adapters.register_dumper(_Reals, _RealsDumper)
        cursor.executemany(
            """
            insert into tensor_sets (run_id, tensor_set, collection, names, sizes)
            select run_id, %s, %s, %s::text[], %s::bigint[] from runs where run_id = %s
            on conflict do nothing
            """,
            [(one.tensor_set, one.collection, list(one.names), list(one.sizes), run_id) for one in sets],
        )
        cursor.executemany(
            _INSERT,
            (
                (
                    one.step, one.time, one.pid, None if one.sizes is None else list(one.sizes), one.norm,
                    *(_encoded(one.columns.get(reduction)) for reduction in REDUCTIONS), run_id, one.tensor_set,
                )
                for one in steps
            ),
        )  # fmt: skip


def stored_steps(connection: Connection, run_id: str) -> set[tuple[str, int, int]]:
    """Return set, step and time in microseconds of each step of a run."""
    return set(
        connection.execute(
            "select tensor_set, step, (extract(epoch from time) * 1000000)::bigint from tensor_steps where run_id = %s",
            (run_id,),
        ).fetchall()
    )


def microseconds(time: float) -> int:
    """Return Unix seconds in microseconds, as the database rounds them."""
    return round(time * 1e6)


def store_problems(connection: Connection, run_id: str, problems: Iterable[WatchProblem]) -> None:
    """Store why the client did not record all of a run; keep existing ones."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "insert into tensor_problems (run_id, problem, is_gap) select run_id, %s, %s from runs where run_id = %s"
            " on conflict do nothing",
            [(problem.text, problem.is_gap, run_id) for problem in problems],
        )


class _Reals(bytes):
    """Array in PostgreSQL's binary format."""

    __slots__ = ()


class _RealsDumper(Dumper):
    format = Format.BINARY
    oid = _FLOAT4_ARRAY

    def dump(self, obj: bytes) -> bytes:
        return obj


def _encoded(values: npt.NDArray[np.float32] | None) -> _Reals | None:
    """Return ``real[]`` in binary; ``None`` if no value is finite."""
    if values is None:
        return None
    import numpy as np  # most runs are not watched, and each has a supervisor

    known = np.isfinite(values)
    if not known.any():
        return None
    is_whole = bool(known.all())
    # Each element is its size and its value; a null has a size of -1 and no value.
    elements = np.empty((len(values), 2), ">i4")
    elements[:, 0] = 4
    elements[:, 1] = values.astype(">f4").view(">i4")
    if not is_whole:
        elements[~known, 0] = -1
    content = elements if is_whole else elements[np.column_stack((np.ones_like(known), known))]
    return _Reals(struct.pack(">iiIii", 1, not is_whole, _FLOAT4, len(values), 1) + content.tobytes())
