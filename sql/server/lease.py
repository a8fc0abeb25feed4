"""Lease on the embedded database's folder. It keeps two hosts from opening the same files."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.pages import Page
from hypergauge.core.system.processes import boot_id

__all__ = ["Lease", "network_filesystem"]

# Network file systems by their kernel names: another host may open the same files.
_NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "orangefs",
        "pvfs2",
        "ocfs2",
        "gfs2",
        "9p",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.juicefs",
        "fuse.gcsfuse",
    ]
)


class Lease:
    """Lease on one folder, taken before the server starts and returned after it stops.

    Parameters
    ----------
    folder
        Folder of the database.
    root
        Root of the file system, the parent of ``proc``.
    """

    def __init__(self, folder: Path, root: Path = Path("/")) -> None:
        self._folder = folder
        self.path = folder / "lease.json"
        self._mine = {"host": platform.node(), "boot_id": boot_id(root)}

    @property
    def mine(self) -> bool:
        """Return whether this host has the lease since its boot: the server runs, or has not stopped cleanly."""
        return self._holder() == self._mine

    def check(self) -> None:
        """Check that no other host has the lease.

        Raises
        ------
        DatabaseUnavailable
            Another host has the lease. The message advises the user, also for a crashed host.
        """
        self._holder()

    def take(self) -> None:
        """Take or keep the lease.

        Raises
        ------
        DatabaseUnavailable
            Another host has the lease.
        """
        self._holder()
        write_atomically(self.path, json.dumps(self._mine))

    def give_back(self) -> None:
        """Return the lease, after a clean stop of the server only."""
        self.path.unlink(missing_ok=True)

    def _holder(self) -> dict[str, str] | None:
        try:
            holder: dict[str, str] = json.loads(self.path.read_text())
            host = holder["host"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DatabaseUnavailable(
                f"{self.path} cannot be read; if no other host works on this database, remove it",
                page=Page.DATA_FOLDERS,
            ) from error
        if host != self._mine["host"]:
            raise DatabaseUnavailable(
                f"the embedded database in {self._folder} is in use on host {host}: stop it there with `bench down`; "
                f"if {host} has crashed or no longer exists, and no process of it uses this folder, remove {self.path}; "
                "or set BENCH_HOME to a folder of this host, or BENCH_DSN to a server for both",
                page=Page.DATA_FOLDERS,
            )
        return holder


def network_filesystem(folder: Path, root: Path = Path("/")) -> str | None:
    """Return the kind of network file system that `folder` lies on, ``None`` on a local one.

    Source: ``/proc/self/mountinfo`` below `root`, see proc(5). The nearest mount above `folder` counts; of several
    mounts on one path, the last.
    """
    try:
        lines = (root / "proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    path = folder.resolve()
    nearest, kind = Path("/"), ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        # The kernel writes white space in a path as octal escapes.
        mount = Path(
            fields[4].replace(r"\040", " ").replace(r"\011", "\t").replace(r"\012", "\n").replace(r"\134", "\\")
        )
        if path.is_relative_to(mount) and mount.is_relative_to(nearest):
            nearest, kind = mount, after.split()[0]
    return kind if kind in _NETWORK else None
