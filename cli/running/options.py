"""Options that commands which run workloads share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["QUIET_HOST_SECONDS", "OutputLimit", "QuietHost", "QuietHostTimeout", "Timeout", "longest_wait"]

QUIET_HOST_SECONDS = 300.0

Timeout = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="End a run after this time, with status timeout.")
]
OutputLimit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Keep no more of a run's output, such as 512MiB; 0 for no limit.")
]
QuietHost = Annotated[
    bool, typer.Option("--quiet-host", help="Wait before each workload until other programs leave the host alone.")
]
QuietHostTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help=f"Longest wait of --quiet-host; by default {QUIET_HOST_SECONDS:g}."),
]


def longest_wait(chosen: bool, limit: float | None, default: float) -> float | None:
    """Return the limit of a wait in seconds; a limit alone chooses the wait too."""
    return default if chosen and limit is None else limit
