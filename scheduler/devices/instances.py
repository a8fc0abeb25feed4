"""MIG instances of a workload: existing ones to reuse, and new ones with their position."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from hypergauge.core.errors import GpuUnavailable
from hypergauge.gpu import MigInstance
from hypergauge.gpu.mig import Layout, MigControl, NotPermitted, PlacedInstance
from hypergauge.gpu.models import Profile
from hypergauge.gpu.placement import place
from hypergauge.scheduler.devices.layout import alternatives, mix
from hypergauge.sql.runs.provisioned_devices import ProvisionedDevice

__all__ = [
    "Choice",
    "choose",
    "needs_root",
    "pick",
    "refusal",
    "refuse_mig_mode",
    "refuse_other_processes",
    "remove_instance",
    "shown",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """MIG instances for the runs on one GPU, by run: existing ones, and profile and first memory slice of new ones."""

    layout: Layout
    there: Mapping[str, MigInstance] = field(default_factory=dict)
    made: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Readable list of the instances."""
        starts = {one.gpu_instance_id: one.start for one in self.layout.instances}
        used = [(one.profile, starts.get(one.gpu_instance_id), "used") for one in self.there.values()]
        new = [(profile, start, "new") for profile, start in self.made.values()]
        return ", ".join(
            f"{profile} at {start} ({how})" if start is not None else f"{profile} ({how})"
            for profile, start, how in sorted([*used, *new], key=lambda one: one[1] or 0)
        )


def choose(layout: Layout, wanted: Mapping[str, str], ours: Collection[int], usable: Collection[str]) -> Choice:
    """Choose an instance for each run: a free existing one, else a new one that fits next to the existing ones.

    Parameters
    ----------
    layout
        Current layout of the GPU, without instances that will be removed first.
    wanted
        Profiles by run.
    ours
        PIDs of runs and their MPS daemons; the GPU must have no other processes.
    usable
        UUIDs of existing instances that may be reused if they have no processes.

    Raises
    ------
    GpuUnavailable
        MIG mode is off, another process is on the GPU, or the profiles do not fit; the message names mixes that fit.
    """
    if not layout.mig_enabled:
        raise GpuUnavailable(
            f"{_gpu(layout)} is not in MIG mode; to enable it: sudo nvidia-smi -i {layout.index} -mig 1"
        )
    refuse_other_processes(layout, ours)
    there = _free(layout, wanted, usable)
    missing = {run_id: profile for run_id, profile in wanted.items() if run_id not in there}
    if not missing:
        return Choice(layout, there)
    fixed = layout.placed
    if len(fixed) < len(layout.instances):
        raise needs_root(layout, missing.values())
    starts = place(layout.profiles, list(missing.values()), fixed)
    if starts is None:
        raise GpuUnavailable(refusal(_gpu(layout), layout.profiles, list(missing.values()), fixed))
    made = {run_id: (missing[run_id], start) for run_id, start in zip(missing, starts, strict=True)}
    return Choice(layout, there, made)


def pick(layout: Layout, wanted: Mapping[str, str], usable: Collection[str]) -> Choice:
    """Choose like `choose`, but only among existing instances; other instances may be in use.

    Raises
    ------
    GpuUnavailable
        Too few instances are free.
    """
    there = _free(layout, wanted, usable)
    if missing := [profile for run_id, profile in wanted.items() if run_id not in there]:
        raise GpuUnavailable(
            f"of the MIG instances that we were given on {_gpu(layout)}, {mix(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing, and here none is made"
        )
    return Choice(layout, there)


def _free(layout: Layout, wanted: Mapping[str, str], usable: Collection[str]) -> dict[str, MigInstance]:
    """Return a free instance of the wanted profile by run, as far as there are any."""
    free = [one for one in layout.instances if one.uuid in usable and not one.pids]
    there: dict[str, MigInstance] = {}
    for run_id, profile in wanted.items():
        found = next((one for one in free if one.profile.name == profile), None)
        if found is not None and found.uuid is not None:
            free.remove(found)
            there[run_id] = MigInstance(found.gpu_instance_id, found.uuid, profile)
    return there


def refusal(
    gpu: str, profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]] = ()
) -> str:
    """Return the message that `wanted` does not fit next to the existing instances `there`, with mixes that would."""
    beside = f" beside {shown(there)}, which is there" if there else ""
    near = alternatives(profiles, wanted, there)
    would = f"{', or '.join(near)} would" if near else "no part of it would"
    return f"{mix(wanted)} {'does' if len(wanted) == 1 else 'do'} not fit on {gpu}{beside}; {would}"


def refuse_other_processes(layout: Layout, ours: Collection[int]) -> None:
    """Refuse a GPU with a process that belongs to no run.

    Raises
    ------
    GpuUnavailable
        The GPU has such a process; the message names it.
    """
    if others := sorted(layout.pids - set(ours)):
        who = ", ".join(map(_process, others))
        raise GpuUnavailable(f"{_gpu(layout)} is in use by {who}, which is not a run of this scheduler")


def refuse_mig_mode(layout: Layout) -> None:
    """Refuse a GPU in MIG mode, for runs that need the whole GPU.

    Raises
    ------
    GpuUnavailable
        The GPU is in MIG mode.
    """
    if layout.mig_enabled:
        raise GpuUnavailable(
            f"{_gpu(layout)} is in MIG mode, which allows no run on the whole GPU: "
            f"name a profile, or sudo nvidia-smi -i {layout.index} -mig 0"
        )


def remove_instance(control: MigControl, device: ProvisionedDevice) -> None:
    """Remove a provisioned instance.

    If its creation was interrupted, remove the unused instance of its profile at its position.

    Raises
    ------
    GpuUnavailable
        The instance cannot be removed; if this needs root, the message names the command.
    """
    [gpu_uuid] = device.gpu_uuids
    for one in control.layout(gpu_uuid).instances:
        if not _is_it(one, device):
            continue
        try:
            control.remove(gpu_uuid, one.gpu_instance_id)
        except NotPermitted as error:
            which = f"-i {gpu_uuid} -gi {one.gpu_instance_id}"
            raise NotPermitted(
                "removing this MIG instance requires root: "
                f"sudo nvidia-smi mig -dci {which} && sudo nvidia-smi mig -dgi {which}"
            ) from error


def _is_it(one: PlacedInstance, device: ProvisionedDevice) -> bool:
    in_place = one.profile.name == device.profile and one.start in (device.start, None)
    if device.gpu_instance_id is None:
        return in_place and one.start is not None and not one.pids
    # An interrupted removal leaves an instance without a UUID.
    return in_place and one.gpu_instance_id == device.gpu_instance_id and one.uuid in (device.mig_uuid, None)


def needs_root(layout: Layout, wanted: Iterable[str | tuple[str, int]]) -> NotPermitted:
    """Return the error with the command that creates instances as root: profiles, with positions if known."""
    words = (one if isinstance(one, str) else f"{one[0]}:{one[1]}" for one in wanted)
    command = f"sudo nvidia-smi mig -i {layout.index} -cgi {','.join(words)} -C"
    return NotPermitted(f"creating MIG instances requires root: {command}; existing ones are used")


def shown(placed: Iterable[tuple[Profile, int]]) -> str:
    """Return the instances of a GPU by position in readable form: ``3g.20gb at 0, 1g.5gb at 4``."""
    ordered = sorted(placed, key=lambda pair: pair[1])
    return ", ".join(f"{one.name or 'an instance'} at {start}" for one, start in ordered)


def _gpu(layout: Layout) -> str:
    return f"GPU {layout.index} ({layout.name})"


def _process(pid: int) -> str:
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"
