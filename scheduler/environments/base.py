"""Base class of environments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hypergauge.scheduler.environments.containers import Container

__all__ = ["RunEnvironment", "in_front_of_path"]


class RunEnvironment:
    """Environment of a run: the origin of its interpreter and packages.

    Asking what a run needs (`python`, `variables`, `container`) is for environments without a `problem`, made where
    `to_make` says so.
    """

    container: Container | None = None

    def problem(self) -> str | None:
        """Return why nothing can run in it on this host, ``None`` where it can."""
        return None

    def to_make(self) -> str | None:
        """Return what has to be made before it can be used, for people; ``None`` where it is there."""
        return None

    def make(self) -> None:
        """Make it.

        Raises
        ------
        BadRequest
            It cannot be made; with the last lines of what was said about that.
        """

    def python(self) -> str:
        """Return the word that starts its interpreter."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """Return what it adds to the variables of a run."""
        return {}


def in_front_of_path(folder: Path) -> str:
    """Return the shell's ``PATH`` with `folder` in front."""
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
