"""Provisioned devices: MIG instances and MPS daemons that schedulers made for runs, by host and home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import first_record, records

__all__ = ["Holder", "ProvisionedDevice", "adopt", "complete", "forget", "join", "on_host", "record"]


@dataclass(frozen=True, slots=True)
class Holder:
    """Process that owns provisioned devices and must remove them.

    `created` distinguishes it from a later process with the same pid. `simulated` is the value of its
    ``BENCH_SIMULATE``, empty for real GPUs.
    """

    host: str
    boot_id: str
    home: str
    simulated: str
    pid: int
    created: float


@dataclass(frozen=True, slots=True)
class ProvisionedDevice:
    """MIG instance or MPS daemon for runs, recorded before its creation.

    Attributes
    ----------
    run_ids
        Runs that use the device.
    gpu_uuids
        GPUs of the instance, or GPUs that the daemon serves.
    profile, start
        Profile and first memory slice of an instance.
    gpu_instance_id, mig_uuid
        Ids of an instance; ``None`` until its creation is confirmed.
    folder
        Folder of a daemon.
    """

    device_id: int
    kind: Literal["instance", "daemon"]
    host: str
    boot_id: str
    home: str
    simulated: str
    holder_pid: int
    holder_created: float
    run_ids: list[str]
    gpu_uuids: list[str]
    profile: str | None = None
    start: int | None = None
    gpu_instance_id: int | None = None
    mig_uuid: str | None = None
    folder: str | None = None


def record(
    connection: Connection,
    kind: Literal["instance", "daemon"],
    holder: Holder,
    run_ids: Sequence[str],
    gpu_uuids: Sequence[str],
    *,
    profile: str | None = None,
    start: int | None = None,
    folder: str | None = None,
) -> ProvisionedDevice:
    """Record a device before its creation."""
    made = first_record(connection, ProvisionedDevice, """
            insert into provisioned_devices (kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids,
                                       gpu_uuids, profile, start, folder)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            returning device_id, kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids, gpu_uuids,
                      profile, start, gpu_instance_id, mig_uuid, folder
            """,
            (kind, holder.host, holder.boot_id, holder.home, holder.simulated, holder.pid, holder.created,
             list(run_ids), list(gpu_uuids), profile, start, folder))  # fmt: skip
    assert made is not None
    return made


def complete(connection: Connection, device_id: int, gpu_instance_id: int, mig_uuid: str) -> None:
    """Record the ids of a created instance."""
    connection.execute(
        "update provisioned_devices set gpu_instance_id = %s, mig_uuid = %s where device_id = %s",
        (gpu_instance_id, mig_uuid, device_id),
    )


def join(connection: Connection, device_id: int, run_ids: Sequence[str]) -> None:
    """Add runs to a device."""
    connection.execute(
        "update provisioned_devices set run_ids = run_ids || %s::text[] where device_id = %s",
        (list(run_ids), device_id),
    )


def adopt(connection: Connection, holder: Holder, run_ids: Sequence[str]) -> None:
    """Make `holder` responsible for removing the devices of these runs."""
    connection.execute(
        """
        update provisioned_devices set holder_pid = %s, holder_created = %s
        where host = %s and home = %s and run_ids && %s::text[]
        """,
        (holder.pid, holder.created, holder.host, holder.home, list(run_ids)),
    )


def on_host(connection: Connection, host: str) -> list[ProvisionedDevice]:
    """Return the recorded devices of a host, of all homes, in order of creation."""
    return records(
        connection,
        ProvisionedDevice,
        """
            select device_id, kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids, gpu_uuids,
                   profile, start, gpu_instance_id, mig_uuid, folder
            from provisioned_devices where host = %s order by device_id
            """,
        (host,),
    )


def forget(connection: Connection, device_id: int) -> None:
    """Delete the record of a removed device."""
    connection.execute("delete from provisioned_devices where device_id = %s", (device_id,))
