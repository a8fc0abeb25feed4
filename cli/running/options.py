"""Options that commands which run workloads share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["OutputLimit", "Timeout"]

Timeout = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="End a run after this time, with status timeout.")
]
OutputLimit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Keep no more of a run's output, such as 512MiB; 0 for no limit.")
]
