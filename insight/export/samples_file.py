"""Samples of runs as a Parquet or CSV file, written block by block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypergauge.core.errors import NoData
from hypergauge.core.files.run_folder import appearing
from hypergauge.insight.export.files import table_writer
from hypergauge.sql.ingest.columns import Columns
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.stream import ALL, Source, inside, sources_of, stream
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.snapshot import snapshot

if TYPE_CHECKING:
    import pyarrow

__all__ = ["write_samples"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_samples(
    connection: Connection, runs: Sequence[RunInfo], path: Path, quantities: Sequence[str] | None = None,
    report: Callable[[int], None] = lambda _: None, parts: Mapping[str, RunPart] | None = None,
) -> int:  # fmt: skip
    """Write the samples of runs to a file in one of `files.FORMS`, and return their number.

    The order is by run, quantity, metric and device, and by time within a series. Samples that runs share are repeated for
    each of them.

    Parameters
    ----------
    quantities
        Names of quantities; by default all.
    report
        Callback with the number of samples written so far.
    parts
        Part of each run by id; by default whole runs. Runs without one are left out.

    Raises
    ------
    NoData
        The runs have no samples; no file is written.
    """
    written = 0
    with appearing(path) as temporary, snapshot(connection), table_writer(temporary, path.name) as write:
        for run in [run for run in runs if parts is None or run.run_id in parts]:
            rows = _Rows(run, sources_of(connection, run.run_id, quantities))
            condition = ALL if parts is None else inside(parts[run.run_id].times)
            with contextlib.closing(stream(connection, [run.run_id], quantities, condition)) as blocks:
                for block in blocks:
                    write(rows.table(block))
                    report(written := written + len(block))
        if not written and all(run.exporters == {} for run in runs):
            raise NoData("the selected runs have no samples, since their rows chose no exporter")
        if not written and parts is not None:
            raise NoData("the selected runs have no samples in this part, or retention has deleted them")
        if not written:
            raise NoData(
                "the selected runs have no samples, or retention has deleted them; a capsule takes the remaining aggregates"
            )
    return written


class _Rows:
    """Converter of one run's samples to rows, with columns from the run and from its sources."""

    def __init__(self, run: RunInfo, sources: Sequence[Source]) -> None:
        import pyarrow as pa  # imported here: it takes half a second

        self._pa = pa
        self._run = run
        keys = _keys(*(np.array([getattr(one, name) for one in sources]) for name in ("series_id", "runset_id")))
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._scales = np.array([one.scale for one in sources], np.float64)
        self._texts = {name: self._text([getattr(one, name) for one in sources]) for name in _TEXTS}

    def table(self, block: Columns) -> pyarrow.Table:
        """Return a block as rows of ``run_samples``."""
        pa, run = self._pa, self._run
        source = self._order[np.searchsorted(self._keys, _keys(block.series_ids, block.runset_ids))]
        moments = np.round(block.times * 1e6).astype(np.int64)
        assert run.started_at is not None
        same = np.zeros(len(block), np.int32)
        return pa.table(
            {
                "experiment_id": same + np.int32(run.experiment_id),
                "workload": same + np.int32(run.workload),
                "run_id": pa.DictionaryArray.from_arrays(same, [run.run_id]),
                "position": same + np.int32(run.position),
                "run": pa.DictionaryArray.from_arrays(same, [run.full_label]),
                **{name: self._taken(name, source) for name in _TEXTS},
                "time": pa.array(moments, pa.timestamp("us", tz="UTC")),
                "elapsed": (moments - (run.started_at - _EPOCH) // timedelta(microseconds=1)) / 1e6,
                "value": pa.array(block.values * self._scales[source], from_pandas=True),  # NaN is null
                "dt": block.dts,
            }
        )

    def _text(self, words: list[str | None]) -> tuple[npt.NDArray[np.int32], Any]:
        """Return the index of each text in the list of distinct ones, -1 for ``None``, and that list."""
        known = {word: index for index, word in enumerate(dict.fromkeys(word for word in words if word is not None))}
        indices = np.array([-1 if word is None else known[word] for word in words], np.int32)
        return indices, self._pa.array(list(known), self._pa.string())

    def _taken(self, name: str, source: npt.NDArray[np.intp]) -> Any:
        indices, words = self._texts[name]
        taken = indices[source]
        return self._pa.DictionaryArray.from_arrays(self._pa.array(taken, mask=taken < 0), words)


_TEXTS = ("quantity", "metric", "unit", "scope", "host", "device")


def _keys(series_ids: npt.NDArray[Any], runset_ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return series_ids.astype(np.int64) << 32 | runset_ids.astype(np.int64)
