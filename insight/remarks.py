"""Notes below a chart: from the database, and from the chart itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

__all__ = ["from_notices", "left_out", "listed", "not_logged", "without_axis"]

# More would be longer than the picture; as in `some_of`.
_MOST_LABELS = 6
# What legends mark series with, and notices are about.
_MARKS = ("*", "◆")


def without_axis(labels: Sequence[str], align: str) -> Iterator[str]:
    """Yield a sentence where some runs are not on the axis that the others have in common."""
    if labels:
        what = f"phase {align.removeprefix('phase:')}" if align.startswith("phase:") else f"{align}s"
        yield f"{listed(labels)} {'has' if len(labels) == 1 else 'have'} no {what}, and so no curve."


def not_logged(labels: Mapping[str, str], logged: Mapping[str, AbstractSet[str]]) -> Iterator[str]:
    """Yield a sentence for each software metric that some runs lack: `labels` by run id, by metric the runs that have it."""
    for metric, having in logged.items():
        if without := [label for run_id, label in labels.items() if run_id not in having]:
            yield f"{metric}: not logged in {listed(without)}."


def from_notices(notices: Iterable[tuple[str, str]], metrics: Sequence[str]) -> Iterator[str]:
    """Yield the sentences of `hypergauge.sql.queries.charts.notices`, with their marks; of simulated GPUs only where a metric is one of GPUs."""
    on_gpus = any(metric.startswith("gpu_") for metric in metrics)
    for about, sentence in notices:
        if on_gpus or about != "* simulated":
            mark = about.split()[0]
            yield f"{mark} {sentence}" if mark in _MARKS else sentence


def left_out(by: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield a sentence that names what there was no place for."""
    if labels:
        yield f"{len(labels)} more {by}{'s'[: len(labels) != 1]} left out: {listed(labels)}."


def listed(labels: Sequence[str]) -> str:
    """Return the first of some labels, and how many there are besides."""
    more = len(labels) - _MOST_LABELS
    return ", ".join(labels[:_MOST_LABELS]) + (f" and {more} more" if more > 0 else "")
