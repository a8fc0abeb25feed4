"""Base class of environments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hypergauge.scheduler.environments.containers import Container

__all__ = ["RunEnvironment", "in_front_of_path"]


class RunEnvironment:
    """Environment of a run: the origin of its interpreter and packages.

    `python`, `variables` and `container` are valid only for environments that have no `problem` and are created.
    """

    container: Container | None = None

    def problem(self) -> str | None:
        """Return the reason why runs cannot use it on this host; ``None`` if they can."""
        return None

    def to_make(self) -> str | None:
        """Return a readable name of what is to be created before first use; ``None`` if it exists."""
        return None

    def make(self) -> None:
        """Create the environment.

        Raises
        ------
        BadRequest
            Creation failed; the message ends with the last lines of the output.
        """

    def python(self) -> str:
        """Return the command of its interpreter."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """Return the variables that it adds to those of a run."""
        return {}


def in_front_of_path(folder: Path) -> str:
    """Return the shell's ``PATH`` with `folder` in front."""
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
