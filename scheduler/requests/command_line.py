"""Job of ``bench run``, from its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.cells import Collocation, Environment, parse_listeners
from hypergauge.scheduler.job import Job, job_from_command
from hypergauge.scheduler.plan.checks import listener_problem
from hypergauge.scheduler.plan.collocation import collocation_problem
from hypergauge.scheduler.profilers import completed, notes

__all__ = ["command_line_job"]


def command_line_job(
    command: Sequence[str], inventory: Inventory, *, name: str | None = None, devices: str | None = None,
    collocation: str = "-", environment: str = "-", listeners: str = "", exporters: Mapping[str, str | None] | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Job:  # fmt: skip
    """Return the job of a command on this host.

    Parameters
    ----------
    devices
        Words of GPUs, joined by ``+``. ``None``: those that the shell sees; empty: none, they are hidden.
    collocation
        Text of a collocation.
    environment
        Text of an environment.
    listeners
        Text of exporters and profilers, as in a file.
    exporters
        Installed exporters by name, with the reason why one cannot work on this host, else ``None``.
    notify
        Receiver of messages about an environment that is created, and about what profilers lack here.

    Raises
    ------
    BadRequest
        A GPU, exporter or profiler is unknown or cannot be used, or the collocation is invalid or does not fit the devices.
    """
    names = [word for word in (devices or "").split("+") if word]
    chosen = None if devices is None else tuple(inventory.find(word) for word in names)
    if len(set(chosen or ())) < len(chosen or ()):
        raise BadRequest(f"--devices {devices} names a device twice")
    wanted = Collocation.parse(collocation)
    if wanted.kind != "shared" and not names:
        raise BadRequest(f"--collocation {wanted} needs --devices")
    if problem := collocation_problem(wanted, names, chosen or ()):
        raise BadRequest(f"--collocation: {problem}")
    try:
        choice, profilers = parse_listeners(listeners)
    except BadRequest as error:
        raise BadRequest(f"--listeners: {error}") from None
    for exporter in choice or ():
        if problem := listener_problem(exporter, exporters or {}):
            raise BadRequest(f"--listeners: {problem}")
    job = job_from_command(
        command, name=name, devices=chosen, collocation=wanted, environment=Environment.parse(environment),
        exporters=choice, profilers=completed(profilers), notify=notify,
    )  # fmt: skip
    for line in notes(job.profilers):
        notify(line)
    return job
