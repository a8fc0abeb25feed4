"""Checks of collocation: MPS and MIG on this host's GPUs, as an experiment file requests them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypergauge.core.errors import GpuUnavailable, did_you_mean
from hypergauge.core.pages import Page
from hypergauge.gpu import Gpu, Inventory
from hypergauge.gpu.placement import place
from hypergauge.gpu.vendors import VENDORS
from hypergauge.scheduler.devices import mps
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.devices.instances import Choice, choose, refusal, refuse_other_processes
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.plan.plan import Action, PlannedRun, PlannedWorkload
from hypergauge.sql.server.session import Session

__all__ = ["Partition", "collocation_problem", "partitions", "workload_problems"]


@dataclass(frozen=True, slots=True)
class Partition:
    """MIG instances of a workload on one GPU."""

    experiment: int
    workload: int
    choice: Choice


def collocation_problem(collocation: Collocation, devices: Sequence[str], gpus: Sequence[Gpu]) -> str | None:
    """Return the reason why a run cannot have this collocation; ``None`` if it can.

    Parameters
    ----------
    devices
        Requested devices, as written.
    gpus
        Requested devices that exist.
    """
    if collocation.kind != "shared" and not devices:
        return f"{collocation} needs a device, but the row has none"
    if collocation.kind != "shared" and (
        other := next((gpu for gpu in gpus if not VENDORS[gpu.vendor].partitions), None)
    ):
        what = "MPS" if collocation.kind == "mps" else "MIG"
        return (
            f"{collocation} needs an NVIDIA GPU, but {_named(other)} has no {what}: write '-', which shares it as it is"
        )
    if collocation.profile is not None:
        return _profile_problem(collocation.profile, devices, gpus)
    for gpu in gpus:
        if gpu.mig_enabled:
            return Page.MIG.after(
                f"{_named(gpu)} is in MIG mode, which allows no run on the whole GPU: "
                f"name a profile ({', '.join(gpu.mig_profiles)}), or sudo nvidia-smi -i {gpu.index} -mig 0"
            )
    if collocation.kind == "mps" and mps.program() is None and not all(gpu.simulated for gpu in gpus):
        return Page.MPS.after(f"{collocation} needs {mps.PROGRAM} on PATH, which comes with NVIDIA's driver")
    return None


def _profile_problem(profile: str, devices: Sequence[str], gpus: Sequence[Gpu]) -> str | None:
    if len(devices) > 1:
        return f"the MIG profile {profile} takes one device, but the row has {len(devices)}"
    for gpu in gpus:
        if not gpu.mig_profiles:
            return f"{_named(gpu)} has no known MIG profiles"
        if profile not in gpu.mig_profiles:
            return f"{_named(gpu)} has no MIG profile {profile!r}{did_you_mean(profile, gpu.mig_profiles)}"
        if not gpu.mig_enabled:
            return f"{_named(gpu)} is not in MIG mode; to enable it: sudo nvidia-smi -i {gpu.index} -mig 1"
    return None


def workload_problems(rows: Iterable[Row], inventory: Inventory) -> Iterator[tuple[Row, str]]:
    """Yield MIG profiles of a workload that can never fit on one GPU together, with the first row concerned.

    `rows` are the rows to run that have no errors of their own.
    """
    groups: dict[tuple[int, int, str], list[Row]] = {}
    for row in rows:
        if row.collocation.profile is not None:
            gpu = inventory.find(row.devices[0])
            groups.setdefault((row.experiment, row.workload, gpu.uuid), []).append(row)
    for (_, _, uuid), group in groups.items():
        gpu = inventory.find(uuid)
        model = gpu.model
        wanted = [row.collocation.profile or "" for row in group]
        if model is not None and place(model.profiles, wanted) is None:
            yield group[0], refusal(_named(gpu), model.profiles, wanted)


def partitions(
    session: Session,
    file: ExperimentFile,
    planned: Sequence[PlannedWorkload],
    inventory: Inventory,
    devices: Devices,
) -> list[Partition]:
    """Return the MIG instances that the workloads of a file would get now.

    Provisioned instances count as removed, because they end with their runs.

    Raises
    ------
    BadExperimentFile
        A process of another workload is on a GPU, or an instance that was not provisioned is in the way.
    """
    found: list[Partition] = []
    problems: list[Problem] = []
    for workload in planned:
        rows = [run.row for run in workload.runs if _is_to_start(run, devices)]
        gpus = {row.line: [inventory.find(word) for word in row.devices] for row in rows}
        sharing = [row for row in rows if row.collocation.kind != "shared"]
        uuids = list(dict.fromkeys(gpu.uuid for row in sharing for gpu in gpus[row.line]))
        for uuid in uuids:
            concerned = [row for row in sharing if uuid in (gpu.uuid for gpu in gpus[row.line])]
            wanted = {str(row.line): row.collocation.profile for row in concerned if row.collocation.profile}
            try:
                layout, ours = devices.without_ours(session, uuid)
                if wanted:
                    usable = {one.uuid for one in layout.instances if one.uuid}
                    choice = choose(layout, wanted, ours, usable)
                    found.append(Partition(workload.experiment, workload.workload, choice))
                else:
                    refuse_other_processes(layout, ours)
            except GpuUnavailable as error:
                cell = concerned[0].cells["Collocation"]
                problems.append(Problem(cell.line, cell.column, f"Collocation: {error}"))
    if problems:
        raise BadExperimentFile(file.path, problems)
    return found


def _is_to_start(run: PlannedRun, devices: Devices) -> bool:
    if run.action is Action.RESUME and run.previous is not None:
        return not devices.is_supervised(run.previous.run_id)
    return run.action is not Action.SKIP


def _named(gpu: Gpu) -> str:
    return f"{gpu.label} ({gpu.name})"
