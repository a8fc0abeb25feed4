"""Lustre mounts, from the client's statistics, with the names and labels of HPE's and GSI's ``lustre_exporter``.

node_exporter has no collector of Lustre. Differences to ``lustre_exporter``: only traffic and operations; all operations of
the Lustre version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.system.kernel_file import list_folder, read_file
from hypergauge.exporters.serving.families import Measurement

__all__ = ["LUSTRE_HELPS", "lustre_mounts"]

LUSTRE_HELPS = {
    "lustre_read_samples_total": "Total number of reads that have been recorded.",
    "lustre_read_bytes_total": "The total number of bytes that have been read.",
    "lustre_write_samples_total": "Total number of writes that have been recorded.",
    "lustre_write_bytes_total": "The total number of bytes that have been written.",
    "lustre_stats_total": "Number of operations the filesystem has performed.",
}
# Times of reads and writes, and of opened files, which other lines count.
_REPEATED = {"read", "write", "opencount", "openclosetime"}
# Until Lustre 2.11, and since.
_FOLDERS = ("proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite")


def lustre_mounts(root: Path) -> Iterator[Measurement]:
    """Yield the metrics of each mount. Since Lustre 2.12 only root may read them, unless debugfs permits others.

    Parameters
    ----------
    root
        Folder of ``proc`` and ``sys``.
    """
    for folder in (root / name for name in _FOLDERS):
        for mount in list_folder(folder):
            labels = {"component": "client", "target": mount}
            for line in read_file(folder / mount / "stats").splitlines():
                yield from _measured(labels, line.split())


def _measured(labels: dict[str, str], fields: list[str]) -> Iterator[Measurement]:
    # Name, number, "samples", unit, and with some units the least, the greatest and the sum.
    match fields:
        case ["read_bytes" | "write_bytes" as name, count, "samples", "[bytes]", _, _, total, *_]:
            kind = name.removesuffix("_bytes")
            yield f"lustre_{kind}_samples_total", labels, int(count)
            yield f"lustre_{kind}_bytes_total", labels, int(total)
        case [name, count, "samples", unit, *_] if unit not in {"[bytes]", "[pages]"} and name not in _REPEATED:
            yield "lustre_stats_total", {**labels, "operation": name}, int(count)
