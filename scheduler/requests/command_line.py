"""Job of ``bench run``, from its options."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.cells import Collocation, parse_listeners
from hypergauge.scheduler.job import Job, job_from_command
from hypergauge.scheduler.plan.collocation import collocation_problem
from hypergauge.scheduler.profilers import PROFILERS

__all__ = ["command_line_job"]


def command_line_job(
    command: Sequence[str], inventory: Inventory, *, name: str | None = None, devices: str | None = None,
    collocation: str = "-", profilers: str = "",
) -> Job:  # fmt: skip
    """Return the job of a command on this host.

    Parameters
    ----------
    devices
        Words of GPUs, joined by ``+``. ``None``: those that the shell sees; empty: none, they are hidden.
    collocation
        Text of a collocation.
    profilers
        Names of profilers, joined by ``+``.

    Raises
    ------
    BadRequest
        A GPU or a profiler is unknown, a profiler cannot be used, or the collocation is invalid or does not fit the devices.
    """
    names = [word for word in (devices or "").split("+") if word]
    chosen = None if devices is None else tuple(inventory.find(word) for word in names)
    wanted = Collocation.parse(collocation)
    if wanted.kind != "shared" and not names:
        raise BadRequest(f"--collocation {wanted} needs --devices")
    if problem := collocation_problem(wanted, names, chosen or ()):
        raise BadRequest(f"--collocation: {problem}")
    unknown, wrappers = parse_listeners(profilers)
    for word in unknown:
        raise BadRequest(f"--profilers: there is no profiler {word!r}{did_you_mean(word, PROFILERS)}")
    return job_from_command(command, name=name, devices=chosen, collocation=wanted, profilers=wrappers)
