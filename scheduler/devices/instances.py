"""MIG instances of a workload: existing ones to reuse, and new ones with their place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from hypergauge.core.errors import GpuUnavailable
from hypergauge.gpu import MigInstance
from hypergauge.gpu.mig import Layout, MigControl, NotPermitted, PlacedInstance
from hypergauge.gpu.models import Profile
from hypergauge.scheduler.devices.layout import alternatives, mix, place
from hypergauge.sql.runs.provisioned_devices import ProvisionedDevice

__all__ = [
    "Choice",
    "choose",
    "needs_root",
    "pick",
    "refusal",
    "refuse_foreign",
    "refuse_mig_mode",
    "remove_instance",
    "shown",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """Instances for runs on one GPU: existing ones, and profile and place of new ones."""

    layout: Layout
    there: Mapping[str, MigInstance] = field(default_factory=dict)
    made: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Instances of the runs, in readable form."""
        starts = {one.gpu_instance_id: one.start for one in self.layout.instances}
        used = [(one.profile, starts.get(one.gpu_instance_id), "used") for one in self.there.values()]
        new = [(profile, start, "new") for profile, start in self.made.values()]
        return ", ".join(
            f"{profile} at {start} ({how})" if start is not None else f"{profile} ({how})"
            for profile, start, how in sorted([*used, *new], key=lambda one: one[1] or 0)
        )


def choose(layout: Layout, wanted: Mapping[str, str], ours: Collection[int], usable: Collection[str]) -> Choice:
    """Choose instances for runs that want a profile each, such that all of them fit beside what is there.

    Parameters
    ----------
    layout
        The GPU as it is, without what will be gone by then.
    wanted
        Profiles by run.
    ours
        Processes of runs: others must not be on the GPU.
    usable
        UUIDs of the instances that may be used as they are, if nobody is on them.

    Raises
    ------
    GpuUnavailable
        MIG mode is off, somebody else is on the GPU, or it does not fit: names the mixes that would.
    """
    if not layout.mig_enabled:
        raise GpuUnavailable(
            f"{_gpu(layout)} is not in MIG mode, which is yours to set: sudo nvidia-smi -i {layout.index} -mig 1"
        )
    refuse_foreign(layout, ours)
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
    """Choose as `choose` does, among the instances that are there alone, whoever is on the others.

    Raises
    ------
    GpuUnavailable
        There are too few.
    """
    there = _free(layout, wanted, usable)
    if missing := [profile for run_id, profile in wanted.items() if run_id not in there]:
        raise GpuUnavailable(
            f"of the MIG instances that we were given on {_gpu(layout)}, {mix(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing, and here none is made"
        )
    return Choice(layout, there)


def _free(layout: Layout, wanted: Mapping[str, str], usable: Collection[str]) -> dict[str, MigInstance]:
    """Return an instance for each run that there is one for."""
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
    """Return that `wanted` does not fit on a GPU beside what is `there`, and what would."""
    beside = f" beside {shown(there)}, which is there" if there else ""
    near = alternatives(profiles, wanted, there)
    would = f"{', or '.join(near)} would" if near else "nothing of it would"
    return f"{mix(wanted)} {'does' if len(wanted) == 1 else 'do'} not fit on {gpu}{beside}; {would}"


def refuse_foreign(layout: Layout, ours: Collection[int]) -> None:
    """Refuse a GPU with a process that is no run's.

    Raises
    ------
    GpuUnavailable
        There is one; names it.
    """
    if foreign := sorted(layout.pids - set(ours)):
        who = ", ".join(map(_process, foreign))
        raise GpuUnavailable(f"{_gpu(layout)} is in use by {who}, which no run of ours has started")


def refuse_mig_mode(layout: Layout) -> None:
    """Refuse a GPU in MIG mode for what needs the whole of it.

    Raises
    ------
    GpuUnavailable
        It is in MIG mode.
    """
    if layout.mig_enabled:
        raise GpuUnavailable(
            f"{_gpu(layout)} is in MIG mode, in which nobody can have the whole of it: "
            f"name a profile, or sudo nvidia-smi -i {layout.index} -mig 0"
        )


def remove_instance(control: MigControl, owned: ProvisionedDevice) -> None:
    """Remove an instance of ours; where its making was cut short, what is in its place, as long as nobody is on it.

    Raises
    ------
    GpuUnavailable
        It cannot be removed; names the command where this takes root.
    """
    [gpu_uuid] = owned.gpu_uuids
    for one in control.layout(gpu_uuid).instances:
        if not _is_it(one, owned):
            continue
        try:
            control.remove(gpu_uuid, one.gpu_instance_id)
        except NotPermitted as error:
            which = f"-i {gpu_uuid} -gi {one.gpu_instance_id}"
            raise NotPermitted(
                "removing the MIG instance that we have made takes root: "
                f"sudo nvidia-smi mig -dci {which} && sudo nvidia-smi mig -dgi {which}"
            ) from error


def _is_it(one: PlacedInstance, owned: ProvisionedDevice) -> bool:
    in_place = one.profile.name == owned.profile and one.start in (owned.start, None)
    if owned.gpu_instance_id is None:
        return in_place and one.start is not None and not one.pids
    # It has no UUID when its removal was cut short.
    return in_place and one.gpu_instance_id == owned.gpu_instance_id and one.uuid in (owned.mig_uuid, None)


def needs_root(layout: Layout, wanted: Iterable[str | tuple[str, int]]) -> NotPermitted:
    """Return the error that names the command with which root makes instances: profiles, with places where known."""
    words = (one if isinstance(one, str) else f"{one[0]}:{one[1]}" for one in wanted)
    command = f"sudo nvidia-smi mig -i {layout.index} -cgi {','.join(words)} -C"
    return NotPermitted(f"making MIG instances takes root: {command}; those that are there are used")


def shown(placed: Iterable[tuple[Profile, int]]) -> str:
    """Return what is on a GPU by place, as people would write it: ``3g.20gb at 0, 1g.5gb at 4``."""
    ordered = sorted(placed, key=lambda pair: pair[1])
    return ", ".join(f"{one.name or 'an instance'} at {start}" for one, start in ordered)


def _gpu(layout: Layout) -> str:
    return f"GPU {layout.index} ({layout.name})"


def _process(pid: int) -> str:
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"
