"""What runs can have in common besides their time."""

from __future__ import annotations

from bench.errors import BadRequest, did_you_mean

__all__ = ["ALIGNMENTS", "check_align"]

ALIGNMENTS = ("time", "step", "epoch", "phase")


def check_align(align: str) -> None:
    """Refuse what is no axis.

    Raises
    ------
    BadRequest
        It is none of `ALIGNMENTS`, nor ``phase:NAME``.
    """
    if align not in ALIGNMENTS and not (align.startswith("phase:") and align != "phase:"):
        raise BadRequest(f"runs cannot be aligned by {align!r}{did_you_mean(align, [*ALIGNMENTS, 'phase:NAME'])}")
