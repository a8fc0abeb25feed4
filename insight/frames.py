"""The same answers as pandas data frames."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bench.config import Settings
from bench.errors import NoData
from sql import replica
from sql.database import Connection, Database
from sql.frames import samples_of, summaries_of
from sql.selection import select_runs

if TYPE_CHECKING:
    import pandas

__all__ = ["frame", "summary"]


def frame(*selectors: str, quantities: list[str] | None = None, settings: Settings | None = None) -> pandas.DataFrame:
    """Return the samples of runs, as ``run_samples`` has them, in the order of time.

    Parameters
    ----------
    selectors
        Experiments, workloads or runs, as on the command line.
    quantities
        Only these; by default all.

    Raises
    ------
    NoData
        The runs have no samples.
    """
    with _selected(selectors, settings) as (connection, run_ids):
        return _data_frame(*samples_of(connection, run_ids, quantities))


def summary(*selectors: str, settings: Settings | None = None) -> pandas.DataFrame:
    """Return what runs did in figures, as ``run_summary`` has them; see `frame`."""
    with _selected(selectors, settings) as (connection, run_ids):
        return _data_frame(*summaries_of(connection, run_ids))


@contextlib.contextmanager
def _selected(selectors: Sequence[str], settings: Settings | None) -> Iterator[tuple[Connection, list[str]]]:
    with Database(settings or Settings.load(), reading=True) as database, database.session() as connection:
        if behind := replica.notice(connection):
            warnings.warn(behind, stacklevel=4)
        yield connection, [run.run_id for run in select_runs(connection, selectors)]


def _data_frame(columns: list[str], rows: list[tuple[Any, ...]]) -> pandas.DataFrame:
    import pandas  # half a second that only this needs

    if not rows:
        raise NoData("the selected runs have no samples")
    return pandas.DataFrame(rows, columns=columns)
