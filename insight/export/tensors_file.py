"""Reductions of tensors as tables, and as a Parquet or CSV file, written block by block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypergauge.client.tensors import REDUCTIONS
from hypergauge.core.errors import NoData
from hypergauge.core.files.run_folder import appearing
from hypergauge.insight.export.files import table_writer
from hypergauge.sql.ingest.tensors import TensorSet, TensorStep, microseconds
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.stream import AT_ONCE
from hypergauge.sql.queries.tensors import sets_of, steps_of
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.snapshot import snapshot

if TYPE_CHECKING:
    import pyarrow

__all__ = ["tables_of", "write_tensors"]


def write_tensors(
    connection: Connection, runs: Sequence[RunInfo], path: Path, report: Callable[[int], None] = lambda _: None,
    parts: Mapping[str, RunPart] | None = None,
) -> int:  # fmt: skip
    """Write a row for each tensor and step of runs to a file in one of `files.FORMS`, and return their number.

    The order is by run and collection, and by step within the tensors of a process.

    Parameters
    ----------
    report
        Callback with the number of rows written so far.
    parts
        Part of each run by id; by default whole runs. Runs without one are left out.

    Raises
    ------
    NoData
        The runs have no tensors; no file is written.
    """
    written = 0
    with appearing(path) as temporary, snapshot(connection), table_writer(temporary, path.name) as write:
        for run in [run for run in runs if parts is None or run.run_id in parts]:
            times = None if parts is None else parts[run.run_id].times
            with contextlib.closing(tables_of(connection, run, times=times)) as tables:
                for table in tables:
                    write(table)
                    report(written := written + table.num_rows)
        if not written:
            where = "" if parts is None else " in this part"
            raise NoData(f"the selected runs have no tensors{where}; scripts record them with `track.watch(model)`")
    return written


def tables_of(
    connection: Connection, run: RunInfo, collection: str | None = None, name: str | None = None,
    times: str | None = None,
) -> Generator[pyarrow.Table]:  # fmt: skip
    """Yield rows of ``tensor_stats`` of a run, with its label, in tables of about `AT_ONCE` rows.

    A name may have wildcards. The caller must close a generator that is not exhausted: the connection is busy until then.
    """
    for tensor_set in sets_of(connection, run.run_id, collection):
        chosen = np.flatnonzero([name is None or fnmatchcase(one, name) for one in tensor_set.names])
        if not chosen.size:
            continue
        rows = _Rows(run, tensor_set, chosen)
        with contextlib.closing(steps_of(connection, run.run_id, tensor_set.tensor_set, times)) as steps:
            for some in _batches(steps, max(1, AT_ONCE // len(tensor_set.names))):
                yield rows.table(some)


def _batches(steps: Iterable[TensorStep], most: int) -> Iterator[list[TensorStep]]:
    """Yield steps in lists of `most`."""
    some: list[TensorStep] = []
    for step in steps:
        some.append(step)
        if len(some) == most:
            yield some
            some = []
    if some:
        yield some


class _Rows:
    """Converter of the steps of a set to rows of the chosen tensors."""

    def __init__(self, run: RunInfo, tensor_set: TensorSet, chosen: npt.NDArray[np.intp]) -> None:
        import pyarrow as pa  # imported here: it takes half a second

        self._pa = pa
        self._run, self._set, self._chosen = run, tensor_set, chosen
        self._names = pa.array([tensor_set.names[nth] for nth in chosen], pa.string())
        self._sizes = np.array(tensor_set.sizes, np.int64)

    def table(self, steps: Sequence[TensorStep]) -> pyarrow.Table:
        """Return steps as rows of ``tensor_stats``."""
        pa, tensors = self._pa, len(self._chosen)
        same = np.zeros(len(steps) * tensors, np.int32)
        moments = np.repeat(np.array([microseconds(one.time) for one in steps], np.int64), tensors)
        sizes = [self._sizes if one.sizes is None else np.array(one.sizes, np.int64) for one in steps]
        return pa.table(
            {
                "run_id": self._text(same, self._run.run_id),
                "run": self._text(same, self._run.full_label),
                "step": np.repeat(np.array([one.step for one in steps], np.int64), tensors),
                "time": pa.array(moments, pa.timestamp("us", tz="UTC")),
                "pid": pa.array([one.pid for one in steps], pa.int32()).take(np.repeat(np.arange(len(steps)), tensors)),
                "collection": self._text(same, self._set.collection),
                "name": pa.DictionaryArray.from_arrays(
                    np.tile(np.arange(tensors, dtype=np.int32), len(steps)), self._names
                ),
                "size": np.concatenate([one[self._chosen] for one in sizes]),
                **{reduction: self._values(steps, reduction) for reduction in REDUCTIONS},
            }
        )

    def _text(self, same: npt.NDArray[np.int32], text: str) -> Any:
        return self._pa.DictionaryArray.from_arrays(same, [text])

    def _values(self, steps: Sequence[TensorStep], reduction: str) -> Any:
        """Return a reduction of all rows; one that was not computed is null."""
        values = np.full((len(steps), len(self._set.names)), np.nan, np.float32)
        for row, step in zip(values, steps, strict=True):
            if (known := step.columns.get(reduction)) is not None:
                row[: len(known)] = known[: len(row)]
        return self._pa.array(values[:, self._chosen].ravel(), from_pandas=True)  # NaN is null
