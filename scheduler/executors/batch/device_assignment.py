"""Assignment of a job's GPUs to the cells ``Devices`` of its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.experiment.experiment_file import Row

__all__ = ["assign_devices"]


def assign_devices(rows: Mapping[str, Row], gpus: Sequence[Gpu], instances: Collection[str]) -> dict[str, Inventory]:
    """Return the inventory of each row, by run. Numbers in ``Devices`` select the job's GPUs in order.

    Parameters
    ----------
    gpus
        GPUs of the job.
    instances
        UUIDs of its MIG instances. A row with a profile gets one instance of that profile, on any GPU.

    Raises
    ------
    BadRequest
        The job has too few GPUs or MIG instances for its rows.
    """
    whole = [row for row in rows.values() if row.collocation.profile is None]
    words = sorted({word for row in whole for word in row.devices}, key=lambda word: (len(word), word))
    there = sorted(gpus, key=lambda gpu: gpu.mig_enabled)  # whole GPUs first
    if len(words) > len(there):
        raise BadRequest(f"the rows name {_count(len(words))}, but the job has {_count(len(there))}")
    named = Inventory(tuple(replace(gpu, index=int(word)) for word, gpu in zip(words, there, strict=False)))
    left = [(gpu, one) for gpu in gpus for one in gpu.mig if one.uuid in instances]
    found: dict[str, Inventory] = {}
    for run_id, row in rows.items():
        if (profile := row.collocation.profile) is None:
            found[run_id] = named
            continue
        chosen = next((pair for pair in left if pair[1].profile == profile), None)
        if chosen is None:
            raise BadRequest(f"the job has no MIG instance {profile} for the row {row.name}, and may create none")
        left.remove(chosen)
        found[run_id] = Inventory(tuple(replace(chosen[0], index=int(word)) for word in row.devices[:1]))
    return found


def _count(number: int) -> str:
    return {0: "none", 1: "1 GPU"}.get(number, f"{number} GPUs")
