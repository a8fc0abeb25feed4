"""Data frames: `frame` and `summary`."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.freshness import await_values
from hypergauge.sql.queries.frames import check_quantities, samples_of, summaries_of
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database

if TYPE_CHECKING:
    import pandas

__all__ = ["frame", "summary"]


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
    with _selected(selectors, quantities, settings) as (connection, run_ids, wanted):
        return _data_frame(*samples_of(connection, run_ids, wanted), wanted)


def summary(
    *selectors: str | int, quantities: str | Iterable[str] | None = None, settings: Settings | None = None
) -> pandas.DataFrame:
    """Return the summaries of runs as in ``run_summary``, with the column ``run`` as in `frame`; see `frame`."""
    with _selected(selectors, quantities, settings) as (connection, run_ids, wanted):
        return _data_frame(*summaries_of(connection, run_ids, wanted), wanted)


@contextlib.contextmanager
def _selected(
    selectors: Sequence[str | int], quantities: str | Iterable[str] | None, settings: Settings | None
) -> Iterator[tuple[Connection, list[str], list[str] | None]]:
    texts, wanted = [_text(one) for one in selectors], _names(quantities)
    settings = settings or Settings.load()
    with Database(settings, reading=True) as database, database.session() as connection:
        if behind := replica.notice(connection):
            warnings.warn(behind, stacklevel=4)
        await_values(connection, settings, texts, lambda words: warnings.warn(words, stacklevel=6))
        if wanted is not None:
            check_quantities(connection, wanted)
        yield connection, [run.run_id for run in select_runs(connection, texts)], wanted


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
