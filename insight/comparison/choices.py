"""Choices of a comparison that go together."""

from __future__ import annotations

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.comparison.columns import SCOPES

__all__ = ["check_choices"]

_GROUPS = ("run", "row", "workload")


def check_choices(by: str, scope: str | None, *, every_attempt: bool) -> None:
    """Check what a comparison compares; see `hypergauge.insight.comparison.comparison.compare`.

    Raises
    ------
    BadRequest
        `by` or `scope` is unknown, or all attempts of workloads are selected.
    """
    if by not in _GROUPS:
        raise BadRequest(f"--by is 'run', 'row' or 'workload', not {by!r}")
    if every_attempt and by == "workload":
        raise BadRequest(
            "--attempts all goes with --by run or --by row: the attempts of a workload's runs do not add up"
        )
    if scope is not None and scope not in SCOPES:
        raise BadRequest(f"there is no scope {scope!r}{did_you_mean(scope, SCOPES)}")
