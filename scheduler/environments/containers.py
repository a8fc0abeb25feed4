"""Containers of runs: their command line and their removal."""

from __future__ import annotations

import contextlib
import csv
import getpass
import io
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu.vendors import VisibleGpu
from hypergauge.scheduler.environments.container_gpus import gpu_options
from hypergauge.scheduler.experiment.parameters import looks_secret

__all__ = ["Container", "Mount", "end_container", "remove_container"]

_END_SECONDS = 30.0
# Variables that docker's own program or its loader reads from its environment. A run's values of these are passed on
# the command line instead.
_DOCKERS_OWN = ("HOME", "PATH", "TMPDIR", "USER")


@dataclass(frozen=True, slots=True)
class Mount:
    """File or folder that a container sees under the same path as the host."""

    source: Path
    read_only: bool = False

    @classmethod
    def parse(cls, text: str, folder: Path) -> Mount:
        """Parse ``PATH`` or ``PATH:ro``; a relative path is relative to `folder`."""
        path, colon, mode = text.rpartition(":")
        read_only = bool(colon) and mode == "ro"
        return cls((folder / Path(path if read_only else text).expanduser()).resolve(), read_only)

    def __str__(self) -> str:
        fields = ["type=bind", f"source={self.source}", f"target={self.source}", *["readonly"] * self.read_only]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields)  # docker parses it as CSV: a path may have a comma
        return line.getvalue()


@dataclass(frozen=True, slots=True)
class Container:
    """Container of a run.

    Attributes
    ----------
    program
        Path of docker's command-line program.
    image
        Image on this host; docker pulls nothing when a run starts.
    mounts
        Mounts besides those that every run needs.
    inherited
        Variables whose values docker takes from its own environment, besides those of the run.
    """

    program: str
    image: str
    mounts: tuple[Mount, ...] = ()
    inherited: tuple[str, ...] = ("BENCH_RUN_ID",)

    @staticmethod
    def name(run_id: str) -> str:
        """Return the name of a run's container."""
        return f"bench-{run_id}"

    def start(
        self,
        words: Sequence[str],
        *,
        run_id: str,
        directory: Path,
        folders: Sequence[Path],
        variables: Mapping[str, str],
        gpus: Sequence[VisibleGpu],
        with_input: bool = False,
    ) -> list[str]:
        """Return the command line that runs `words` in a container.

        Parameters
        ----------
        run_id
            Id of the run.
        directory
            Working directory, mounted under the same path as on the host.
        folders
            Further folders, mounted for reading and writing.
        variables
            Variables of the run. Docker takes the values from its environment, because all users can read command
            lines. Exceptions are variables that docker's own program reads as well.
        gpus
            GPUs and MIG instances.
        with_input
            Whether the standard input is passed on.
        """
        mounts = {mount.source: mount for mount in [*map(Mount, [directory, *folders]), *self.mounts]}
        line = [self.program, "run", "--rm", "--init", "--name", self.name(run_id), "--pull", "never"]
        # The host's network gives access to MLflow on 127.0.0.1. The host's IPC is for MPS and for data loaders, which
        # need more than docker's 64 MiB of shared memory.
        line += ["--network", "host", "--ipc", "host", "--user", f"{os.getuid()}:{os.getgid()}"]
        line += ["--interactive"] * with_input
        line += gpu_options(gpus)
        for mount in mounts.values():
            line += ["--mount", str(mount)]
        line += ["--workdir", str(directory)]
        # A user id that the image does not know has neither home nor name there.
        for name, value in {"HOME": "/tmp", "USER": getpass.getuser(), **variables}.items():  # noqa: S108
            line += ["--env", f"{name}={value}" if _is_dockers(name) else name]
        for name in self.inherited:
            line += ["--env", name]
        return [*line, self.image, *words]

    def query_command(self, words: Sequence[str], name: str) -> list[str]:
        """Return the command line that runs `words` in a container `name` without mounts and network."""
        line = [self.program, "run", "--rm", "--init", "--name", name, "--pull", "never", "--network", "none"]
        return [*line, self.image, *words]

    @staticmethod
    def taken(variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a run that docker takes from its environment."""
        return {name: value for name, value in variables.items() if not _is_dockers(name)}


def _is_dockers(name: str) -> bool:
    return (name in _DOCKERS_OWN or name.startswith(("DOCKER_", "LD_"))) and not looks_secret(name)


def end_container(folder: RunFolder) -> None:
    """Remove the container of a run, if it exists."""
    try:
        name = folder.spec().get("container")
    except FileNotFoundError:
        return
    program = shutil.which("docker")
    if name and program:
        remove_container(program, name)


def remove_container(program: str, name: str) -> None:
    """Remove a container, if it exists."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [program, "rm", "--force", name],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_END_SECONDS,
        )  # fmt: skip
