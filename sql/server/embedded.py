"""Embedded PostgreSQL server: binaries from a wheel, data under ``BENCH_HOME``, a Unix socket only.

The first process that needs the server starts it; the last process that holds it stops it, see
`hypergauge.core.files.shared_resource`. The socket is in a folder that only the user can enter.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.files.shared_resource import SharedResource
from hypergauge.core.pages import Page
from hypergauge.sql.server.lease import Lease, network_filesystem
from hypergauge.sql.server.postmaster import answers, postmaster
from hypergauge.sql.server.programs import MAJOR, Programs
from hypergauge.sql.server.restarts import Restarts

__all__ = ["CONFIGURATION", "EmbeddedServer"]

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 60.0

CONFIGURATION = """
# Written by hypergauge when the database was made; edit at will.
listen_addresses = ''
max_connections = 500           # a supervisor of each run has one, and a hundred runs at once leave room for queries
shared_buffers = '128MB'
max_wal_size = '2GB'
synchronous_commit = off        # for MLflow's many small transactions; our own connections commit synchronously
jit = off                       # short analytic queries: compiling costs more than it saves
timezone = 'UTC'
log_timezone = 'UTC'
"""


class EmbeddedServer:
    """Embedded server of one ``BENCH_HOME``; safe to acquire and release twice, from several processes at once.

    Parameters
    ----------
    folder
        Folder of the database; the path may have any length.
    binaries
        Folder of ``pg_ctl`` and ``initdb``; by default that of the wheel.
    major
        Major version of these binaries.
    configuration
        Lines to append to ``postgresql.conf`` when the database is created.
    root
        Root of the file system, the parent of ``proc``.
    starts
        Whether this process may start the server. A server that a run's supervisor starts would end with the batch job or
        the control group of the run.
    patience
        Seconds without an answer after which the server counts as dead.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Path | None = None,
        major: int = MAJOR,
        configuration: str = CONFIGURATION,
        root: Path = Path("/"),
        starts: bool = True,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.programs = Programs(major, binaries)
        self.configuration = configuration
        self._root, self._starts, self._patience = root, starts, patience
        self._lease = Lease(folder, root)
        self._shared = SharedResource(folder)

    @property
    def proven(self) -> Path:
        """Folder of verified data in a new major version, before they replace the old data."""
        return self.folder / f"upgraded-{self.programs.major}"

    @property
    def socket_dir(self) -> Path:
        """Private folder of the socket, short because a socket's path must stay below 108 bytes."""
        # The name depends on nothing that differs between login, cron and batch jobs: all must find the same server.
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return Path(f"/tmp/hypergauge-{os.getuid()}-{digest}")  # noqa: S108 - private by its mode, checked when made

    @property
    def dsn(self) -> str:
        """The connection string of the server, running or not."""
        return f"postgresql://postgres@/postgres?host={self.socket_dir}"

    @property
    def running(self) -> bool:
        """Return whether the server's process is alive."""
        return postmaster(self.data) is not None

    @property
    def made_by(self) -> int | None:
        """PostgreSQL major version of the data, ``None`` before the first start."""
        with contextlib.suppress(FileNotFoundError):
            return int((self.data / "PG_VERSION").read_text())
        return None

    def acquire(self) -> str:
        """Start the server if it is not running and this process may, hold it, and return its connection string.

        Raises
        ------
        DatabaseUnavailable
            The server cannot start, another host holds the lease, or the data have another major version.
        """
        self._shared.join(self._ensure if self._starts else lambda: None)
        return self.dsn

    def restore(self) -> bool:
        """Start the server again if it died or hangs, and return whether this process holds it and may.

        Raises
        ------
        DatabaseUnavailable
            The server cannot start.
        """
        if not (self._starts and self._shared.joined):
            return False
        self._shared.exclusively(self._ensure)
        return True

    def release(self) -> None:
        """Release the server; the last user stops it."""
        self._shared.leave(self._stop)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Take exclusive access to the server, with the lease and the socket's folder.

        Raises
        ------
        DatabaseUnavailable
            Another process holds the server, on this or another host.
        """
        self._lease.check()
        with self._shared.alone() as alone:
            if not alone:
                raise DatabaseUnavailable(
                    f"the embedded database in {self.folder} is in use: stop its clients (`bench down`), and retry",
                    page=Page.NEW_POSTGRESQL,
                )
            self._lease.take()
            self.make_socket_dir()
            if not self.running:
                self._remove_pid_files()
            try:
                yield
            finally:
                if not self.running:
                    self._let_go()

    def complete(self) -> None:
        """Complete an upgrade that was interrupted between its last two steps, see `hypergauge.sql.server.upgrade`."""
        if not self.data.exists() and self.proven.exists():
            self.proven.rename(self.data)

    def make_socket_dir(self) -> None:
        """Create the private folder of the socket. Refuse a folder that other users can enter."""
        self.socket_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.socket_dir.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise DatabaseUnavailable(f"{self.socket_dir} is not private to this user; remove it")

    def _stop(self) -> None:
        if self.programs.stop(self.data):
            self._let_go()

    def _let_go(self) -> None:
        self._lease.give_back()
        Restarts(self.folder).forget()
        with contextlib.suppress(OSError):
            self.socket_dir.rmdir()

    def _ensure(self) -> None:
        self._lease.check()
        self.complete()
        self._check_version()
        left = self._lease.mine
        self._lease.take()
        if not self.running:
            problem = "its process had ended"
        elif not answers(self.dsn, self.data, self._patience):
            problem = "it did not answer"
            self.programs.stop(self.data)
        else:
            return
        self._start()
        if left:
            _log.warning("the embedded database in %s was started again: %s", self.folder, problem)
            Restarts(self.folder).add(problem)

    def _check_version(self) -> None:
        found = self.made_by
        if found is None or found == self.programs.major:
            return
        if found < self.programs.major:
            remedy = "`bench db upgrade` upgrades them"
        else:
            remedy = "use the release that made them, or set BENCH_HOME to another folder"
        raise DatabaseUnavailable(
            f"the data in {self.folder} were made by PostgreSQL {found}, this release has {self.programs.major}: {remedy}",
            page=Page.NEW_POSTGRESQL,
        )

    def _start(self) -> None:
        if kind := network_filesystem(self.folder, self._root):
            _log.warning(
                "the embedded database in %s is on a network file system (%s), where locks and durable writes are "
                "unreliable: set BENCH_HOME to a local folder, or BENCH_DSN to a server",
                self.folder,
                kind,
            )
        self.make_socket_dir()
        self._remove_pid_files()
        if not self.data.exists():
            self._make()
        # These options override the configuration file: the server has no passwords, so only this user may reach it.
        self.programs.start(self.data, self.socket_dir, self.folder / "server.log")

    def _remove_pid_files(self) -> None:
        """Remove the files of a server that died. PostgreSQL would search for their pid, which another process may have now."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_dir / ".s.PGSQL.5432.lock").unlink(missing_ok=True)

    def _make(self) -> None:
        """Create the database in a temporary folder, then rename it: an interrupt leaves no partial database."""
        for left in self.folder.glob("unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)  # processes of an interrupted attempt may still write there
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
        self.programs.make(unfinished, "--no-sync", configuration=self.configuration)
        unfinished.rename(self.data)
