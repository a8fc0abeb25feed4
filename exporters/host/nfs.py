"""NFS mounts, from the kernel's ``mountstats``, with the names and labels of node_exporter's collector ``mountstats``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.system.kernel_file import read_file
from hypergauge.exporters.serving.families import Measurement

__all__ = ["NFS_HELPS", "nfs_mounts"]

# `nfsd`, the server's control files, has no version of statistics.
_MOUNT = re.compile(r"device (?P<export>\S+) mounted on (?P<path>\S+) with fstype nfs4? statvers=")
_ADDRESS = re.compile(r"\baddr=([^,]+)")
_PREFIX = "node_mountstats_nfs"
# In the order of the line `bytes`; pages follow.
_BYTES = {
    f"{_PREFIX}_read_bytes_total": "Number of bytes read using the read() syscall.",
    f"{_PREFIX}_write_bytes_total": "Number of bytes written using the write() syscall.",
    f"{_PREFIX}_direct_read_bytes_total": "Number of bytes read using the read() syscall in O_DIRECT mode.",
    f"{_PREFIX}_direct_write_bytes_total": "Number of bytes written using the write() syscall in O_DIRECT mode.",
    f"{_PREFIX}_total_read_bytes_total": "Number of bytes read from the NFS server, in total.",
    f"{_PREFIX}_total_write_bytes_total": "Number of bytes written to the NFS server, in total.",
}
_REQUESTS = f"{_PREFIX}_operations_requests_total"
_REQUEST_TIME = f"{_PREFIX}_operations_request_time_seconds_total"
NFS_HELPS = {
    **_BYTES,
    _REQUESTS: "Number of requests performed for a given operation.",
    _REQUEST_TIME: "Duration all requests took from when a request was enqueued to when it was completely handled"
    " for a given operation, in seconds.",
}


def nfs_mounts(process: Path) -> Iterator[Measurement]:
    """Yield the metrics of each NFS export once, however often it is mounted.

    Operations that were never requested are left out.

    Parameters
    ----------
    process
        ``/proc/self``.
    """
    mounts = list(_mounts(read_file(process / "mountstats")))
    # The server's address stands in `mountinfo` alone.
    addresses = dict(_addresses(read_file(process / "mountinfo"))) if mounts else {}
    seen = set()
    for export, path, lines in mounts:
        statistics = list(_statistics(lines))
        protocol = next((values[0] for name, values in statistics if name == "xprt"), "")
        mount = export, protocol, addresses.get((export, path), "")
        if mount in seen:
            continue
        seen.add(mount)
        labels = dict(zip(("export", "protocol", "mountaddr"), mount, strict=True))
        for name, values in statistics:
            if name == "bytes":
                yield from ((metric, labels, int(value)) for metric, value in zip(_BYTES, values, strict=False))
            elif name.isupper() and values[0] != "0":
                yield _REQUESTS, {**labels, "operation": name}, int(values[0])
                yield _REQUEST_TIME, {**labels, "operation": name}, int(values[7]) / 1000


def _mounts(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each NFS mount: its export, its path, and the lines of its statistics."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith((" ", "\t")):
            lines.append(line)
        elif match := _MOUNT.match(line):
            lines = []
            yield match["export"], match["path"], lines
        else:
            lines = []


def _statistics(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    for line in lines:
        name, _, values = line.partition(":")
        if fields := values.split():
            yield name.strip(), fields


def _addresses(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in text.splitlines():
        mount, _, file_system = line.partition(" - ")
        if address := _ADDRESS.search(file_system):
            yield (file_system.split()[1], mount.split()[4]), address[1]
