"""Provisioned devices: MIG instances and MPS daemons that schedulers made for runs, by host and home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["Holder", "ProvisionedDevice", "adopt", "complete", "forget", "join", "on_host", "record"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that is to remove what it has made; `created` tells it from a later one of the same pid.

    `simulated` is what its ``BENCH_SIMULATE`` says, empty for real GPUs.
    """

    host: str
    boot_id: str
    home: str
    simulated: str
    pid: int
    created: float


@dataclass(frozen=True, slots=True)
class ProvisionedDevice:
    """Something that was made for runs, or was about to be.

    Attributes
    ----------
    run_ids
        The runs that it is for.
    gpu_uuids
        The GPUs that it is on, or serves.
    profile, start
        Of an instance; the memory slice on which it begins.
    gpu_instance_id, mig_uuid
        Of an instance that is known to have been made.
    folder
        Of a daemon.
    """

    owned_id: int
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
    """Record what is about to be made."""
    with connection.cursor(row_factory=class_row(ProvisionedDevice)) as cursor:
        made = cursor.execute(
            """
            insert into owned_devices (kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids,
                                       gpu_uuids, profile, start, folder)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            returning owned_id, kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids, gpu_uuids,
                      profile, start, gpu_instance_id, mig_uuid, folder
            """,
            (kind, holder.host, holder.boot_id, holder.home, holder.simulated, holder.pid, holder.created,
             list(run_ids), list(gpu_uuids), profile, start, folder),
        ).fetchone()  # fmt: skip
    assert made is not None
    return made


def complete(connection: Connection, owned_id: int, gpu_instance_id: int, mig_uuid: str) -> None:
    """Record what an instance was given when it was made."""
    connection.execute(
        "update owned_devices set gpu_instance_id = %s, mig_uuid = %s where owned_id = %s",
        (gpu_instance_id, mig_uuid, owned_id),
    )


def join(connection: Connection, owned_id: int, run_ids: Sequence[str]) -> None:
    """Record that it is for these runs too."""
    connection.execute(
        "update owned_devices set run_ids = run_ids || %s::text[] where owned_id = %s", (list(run_ids), owned_id)
    )


def adopt(connection: Connection, holder: Holder, run_ids: Sequence[str]) -> None:
    """Make `holder` the one to remove what there is for these runs."""
    connection.execute(
        """
        update owned_devices set holder_pid = %s, holder_created = %s
        where host = %s and home = %s and run_ids && %s::text[]
        """,
        (holder.pid, holder.created, holder.host, holder.home, list(run_ids)),
    )


def on_host(connection: Connection, host: str) -> list[ProvisionedDevice]:
    """Return what is recorded for a host, of all homes, in the order in which it was made."""
    with connection.cursor(row_factory=class_row(ProvisionedDevice)) as cursor:
        return cursor.execute(
            """
            select owned_id, kind, host, boot_id, home, simulated, holder_pid, holder_created, run_ids, gpu_uuids,
                   profile, start, gpu_instance_id, mig_uuid, folder
            from owned_devices where host = %s order by owned_id
            """,
            (host,),
        ).fetchall()


def forget(connection: Connection, owned_id: int) -> None:
    """Record that it is there no more."""
    connection.execute("delete from owned_devices where owned_id = %s", (owned_id,))
