"""Dashboards of the product, by uid."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.dashboards.grafana.boards import fleet, inter, intra, ledger, mixed, pipeline, run
from hypergauge.dashboards.grafana.queries import Json

__all__ = ["BOARDS", "board"]

BOARDS: Mapping[str, Callable[[], Json]] = {
    "bench-intra": intra.board,
    "bench-inter": inter.board,
    "bench-mixed": mixed.board,
    "bench-run": run.board,
    "bench-fleet": fleet.board,
    "bench-ledger": ledger.board,
    "bench-pipeline": pipeline.board,
}


def board(uid: str) -> Json:
    """Return the dashboard with a uid.

    Raises
    ------
    BadRequest
        There is no such dashboard.
    """
    if uid not in BOARDS:
        raise BadRequest(f"there is no dashboard {uid!r}{did_you_mean(uid, BOARDS)}")
    return BOARDS[uid]()
