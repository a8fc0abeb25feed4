"""Registry of executors: entry points of the group ``hypergauge.executors``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hypergauge.core.config.settings import EXECUTORS, config_file, sections
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.executors.base import Executor

__all__ = ["LOCAL", "load_executor"]

LOCAL = "local"
# What comes with this package, also where it runs from its sources and nothing of it is registered.
_OWN = [EntryPoint("slurm", "hypergauge.scheduler.executors.slurm:SlurmExecutor", EXECUTORS)]

ExecutorFactory = Callable[[Mapping[str, Any], Path | None], Executor]


def load_executor(
    name: str, *, directory: Path | None = None, found: list[EntryPoint] | None = None
) -> Executor | None:
    """Return the executor called `name`, with its section of the ``bench.toml`` seen from a directory.

    ``local`` is ``None``: this host.

    Raises
    ------
    BadRequest
        There is none, it cannot be loaded, or its section is wrong.
    """
    if name == LOCAL:
        return None
    known = {one.name: one for one in [*(entry_points(group=EXECUTORS) if found is None else found), *_OWN]}
    if name not in known:
        raise BadRequest(f"there is no executor {name!r}{did_you_mean(name, sorted([LOCAL, *known]))}")
    try:
        factory: ExecutorFactory = known[name].load()
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadRequest(f"the executor {name!r} ({known[name].value}) cannot be loaded: {what}") from error
    file = config_file(directory)
    return factory(sections(file, name) if file else {}, file)
