"""Registry of batch systems: entry points of the group ``hypergauge.executors``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hypergauge.core.config.bench_toml import config_file, sections
from hypergauge.core.config.settings import EXECUTORS
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.executors.base import LOCAL, BatchSystem

__all__ = ["load_batch_system"]

# Built in, because a checkout without installation has no entry points.
_OWN = [EntryPoint("slurm", "hypergauge.scheduler.executors.slurm:SlurmExecutor", EXECUTORS)]

Factory = Callable[[Mapping[str, Any], Path | None], BatchSystem]


def load_batch_system(
    name: str, *, directory: Path | None = None, found: list[EntryPoint] | None = None
) -> BatchSystem | None:
    """Return the batch system of the executor `name`; ``None`` for ``local``, which needs none.

    Parameters
    ----------
    directory
        Folder from which to look for the ``bench.toml`` with the section of that name.
    found
        Entry points; by default the installed ones.

    Raises
    ------
    BadRequest
        There is no such executor, it cannot be loaded, or its section is wrong.
    """
    if name == LOCAL:
        return None
    known = {one.name: one for one in [*(entry_points(group=EXECUTORS) if found is None else found), *_OWN]}
    if name not in known:
        raise BadRequest(f"there is no executor {name!r}{did_you_mean(name, sorted([LOCAL, *known]))}")
    try:
        factory: Factory = known[name].load()
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadRequest(f"the executor {name!r} ({known[name].value}) cannot be loaded: {what}") from error
    file = config_file(directory)
    return factory(sections(file, name) if file else {}, file)
