"""Alignment of runs: by time, step, epoch or phase."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.sql.queries.charts.axes import Span, phase_names, spans
from hypergauge.sql.server.database import Connection

__all__ = ["ALIGNMENTS", "axes_of", "check_align", "unit_of"]

ALIGNMENTS = ("time", "step", "epoch", "phase")


def check_align(align: str) -> None:
    """Refuse an unknown axis.

    Raises
    ------
    BadRequest
        It is none of `ALIGNMENTS`, nor ``phase:NAME``.
    """
    if align not in ALIGNMENTS and not (align.startswith("phase:") and align != "phase:"):
        raise BadRequest(f"runs cannot be aligned by {align!r}{did_you_mean(align, [*ALIGNMENTS, 'phase:NAME'])}")


def unit_of(align: str) -> str:
    """Return the name of an axis' unit: ``steps``, ``phase 'train'``."""
    return f"phase {align.removeprefix('phase:')!r}" if align.startswith("phase:") else f"{align}s"


def axes_of(connection: Connection, run_ids: Sequence[str], align: str) -> dict[str, Span]:
    """Return the spans of runs on an axis by id; runs without it are missing.

    Raises
    ------
    BadRequest
        No run has a phase of that name.
    NoData
        No run has the axis.
    """
    if found := spans(connection, run_ids, align):
        return found
    if align.startswith("phase:") and (phases := phase_names(connection, run_ids)):
        name = align.removeprefix("phase:")
        raise BadRequest(f"the selected runs have no phase {name!r}{did_you_mean(name, phases)}")
    raise NoData(f"the selected runs have no {unit_of(align)}; scripts track them with `from hypergauge import track`")
