"""Data frames: `frame`, `summary` and `tensors`."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.insight.freshness import await_values
from hypergauge.sql.queries.frames import check_quantities, samples_of, summaries_of
from hypergauge.sql.queries.tensors import collections_of
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database

if TYPE_CHECKING:
    import pandas

__all__ = ["frame", "summary", "tensors"]


def frame(
    *selectors: str | int, quantities: str | Iterable[str] | None = None, settings: Settings | None = None
) -> pandas.DataFrame:
    """Return the samples of runs as in ``run_samples``, in the order of time.

    Parameters
    ----------
    selectors
        Experiments, workloads or runs, as on the command line; a number is an experiment. Without any, all runs.
    quantities
        Names of quantities, or one name; by default all.

    Raises
    ------
    BadRequest
        A selector matches nothing, or a quantity is unknown.
    NoData
        The runs have no such samples.
    """
    with _selected(selectors, quantities, settings) as (connection, runs, wanted):
        return _data_frame(*samples_of(connection, _ids(runs), wanted), wanted)


def summary(
    *selectors: str | int, quantities: str | Iterable[str] | None = None, settings: Settings | None = None
) -> pandas.DataFrame:
    """Return the summaries of runs as in ``run_summary``, with the column ``run`` as in `frame`; see `frame`."""
    with _selected(selectors, quantities, settings) as (connection, runs, wanted):
        return _data_frame(*summaries_of(connection, _ids(runs), wanted), wanted)


def tensors(
    *selectors: str | int, collection: str | None = None, name: str | None = None, settings: Settings | None = None
) -> pandas.DataFrame:
    """Return reductions of tensors as in ``tensor_stats``, with the column ``run`` as in `frame`.

    The order is by run and collection, and by step within the tensors of a process. Texts are categories.

    Parameters
    ----------
    selectors
        As in `frame`.
    collection
        Collection, such as ``gradients``; by default all.
    name
        Name of a tensor, or a wildcard such as ``*.weight``; by default all.

    Raises
    ------
    BadRequest
        A selector matches nothing.
    NoData
        The runs have no such tensors.
    """
    from hypergauge.insight.export.tensors_file import tables_of  # with numpy: slow to import

    with _selected(selectors, None, settings) as (connection, runs, _):
        tables = [table for run in runs for table in tables_of(connection, run, collection, name)]
        if not tables:
            raise _without_tensors(collections_of(connection, _ids(runs)), collection)
    import pyarrow as pa

    return pa.concat_tables(tables).unify_dictionaries().to_pandas()


def _without_tensors(known: Sequence[str], collection: str | None) -> NoData:
    """Return the error of runs that have no tensors, or only others."""
    if not known:
        return NoData("the selected runs have no tensors; scripts record them with `track.watch(model)`")
    if collection is not None and collection not in known:
        hint = did_you_mean(collection, known, f"; they have {', '.join(known)}")
        return NoData(f"the selected runs have no tensors of the collection {collection!r}{hint}")
    return NoData("the selected runs have no such tensors")


def _ids(runs: Sequence[RunInfo]) -> list[str]:
    return [run.run_id for run in runs]


@contextlib.contextmanager
def _selected(
    selectors: Sequence[str | int], quantities: str | Iterable[str] | None, settings: Settings | None
) -> Iterator[tuple[Connection, Sequence[RunInfo], list[str] | None]]:
    texts, wanted = [_text(one) for one in selectors], _names(quantities)
    settings = settings or Settings.load()
    with Database(settings, reading=True) as database, database.session() as connection:
        if behind := replica.notice(connection):
            warnings.warn(behind, stacklevel=4)
        await_values(connection, settings, texts, lambda words: warnings.warn(words, stacklevel=6))
        if wanted is not None:
            check_quantities(connection, wanted)
        yield connection, select_runs(connection, texts), wanted


def _text(selector: object) -> str:
    """Return a selector as text; an integer of any type is the number of an experiment."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, bool):
        with contextlib.suppress(TypeError):
            return str(operator.index(selector))  # type: ignore[arg-type]
    raise BadRequest(f"{selector!r} is not a selector: give '20', '20/1', '20/1/3', a run's id, or the number 20")


def _names(quantities: object) -> list[str] | None:
    if quantities is None or isinstance(quantities, str):
        return None if quantities is None else [quantities]
    names: list[Any] = list(quantities) if isinstance(quantities, Iterable) else [quantities]
    for name in names:
        if not isinstance(name, str):
            raise BadRequest(f"{name!r} is not a quantity: give a name such as 'cpu_usage', or a list of names")
    return names


def _data_frame(columns: list[str], rows: list[tuple[Any, ...]], quantities: list[str] | None) -> pandas.DataFrame:
    import pandas  # imported here: it takes half a second

    if not rows:
        of = f" of {', '.join(quantities)}" if quantities else ""
        raise NoData(f"the selected runs have no samples{of}")
    return pandas.DataFrame(rows, columns=columns)
