"""Containers of runs: the command line that starts one, and its end."""

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
from hypergauge.scheduler.experiment.parameters import looks_secret

__all__ = ["Container", "Mount", "end_container", "remove_container"]

_END_SECONDS = 30.0
# What docker's own program, or its loader, reads from its environment: a run's own value of these goes in another way.
_DOCKERS_OWN = ("HOME", "PATH", "TMPDIR", "USER")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder that a container sees at the place that it has on the host."""

    source: Path
    read_only: bool = False

    @classmethod
    def parse(cls, text: str, folder: Path) -> Mount:
        """Parse ``PATH`` or ``PATH:ro``; a relative path counts from `folder`."""
        path, colon, mode = text.rpartition(":")
        read_only = bool(colon) and mode == "ro"
        return cls((folder / Path(path if read_only else text).expanduser()).resolve(), read_only)

    def __str__(self) -> str:
        fields = ["type=bind", f"source={self.source}", f"target={self.source}", *["readonly"] * self.read_only]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields)  # docker reads it as CSV: a path may hold a comma
        return line.getvalue()


@dataclass(frozen=True, slots=True)
class Container:
    """Start of a run's container.

    Attributes
    ----------
    program
        Docker's command line.
    image
        The image, which is there: nothing is pulled when a run is to begin.
    mounts
        What it sees of the host, besides what every run needs.
    """

    program: str
    image: str
    mounts: tuple[Mount, ...] = ()

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
        gpus: Sequence[str],
    ) -> list[str]:
        """Return the command line that runs `words` in a container.

        Parameters
        ----------
        run_id
            The run.
        directory
            The working directory, mounted at the place that it has on the host.
        folders
            What else is mounted, read and write.
        variables
            Those of the run. Values are taken from the environment that the command is started with, as command lines
            are for all to see; but for a few that docker's own program reads as well.
        gpus
            UUIDs of GPUs and MIG instances.
        """
        mounts = {mount.source: mount for mount in [*map(Mount, [directory, *folders]), *self.mounts]}
        line = [self.program, "run", "--rm", "--init", "--name", self.name(run_id), "--pull", "never"]
        # Its network for MLflow on 127.0.0.1; its IPC for MPS, and as 64 MiB of shared memory are no data loader's.
        line += ["--network", "host", "--ipc", "host", "--user", f"{os.getuid()}:{os.getgid()}"]
        if gpus:
            line += ["--gpus", f'"device={",".join(gpus)}"']
        for mount in mounts.values():
            line += ["--mount", str(mount)]
        line += ["--workdir", str(directory)]
        # A user that the image does not know has no home there, and no name.
        for name, value in {"HOME": "/tmp", "USER": getpass.getuser(), **variables, "BENCH_RUN_ID": ""}.items():  # noqa: S108
            line += ["--env", f"{name}={value}" if _is_dockers(name) else name]
        return [*line, self.image, *words]

    def asked(self, words: Sequence[str], name: str) -> list[str]:
        """Return the command line that asks the image something: in a container `name`, which sees nothing of the host."""
        line = [self.program, "run", "--rm", "--init", "--name", name, "--pull", "never", "--network", "none"]
        return [*line, self.image, *words]

    @staticmethod
    def taken(variables: Mapping[str, str]) -> dict[str, str]:
        """Return those of a run's variables that the command line takes from its environment."""
        return {name: value for name, value in variables.items() if not _is_dockers(name)}


def _is_dockers(name: str) -> bool:
    return (name in _DOCKERS_OWN or name.startswith(("DOCKER_", "LD_"))) and not looks_secret(name)


def end_container(folder: RunFolder) -> None:
    """Remove the container of a run, where it has one and that is still there."""
    try:
        name = folder.spec().get("container")
    except FileNotFoundError:
        return
    program = shutil.which("docker")
    if name and program:
        remove_container(program, name)


def remove_container(program: str, name: str) -> None:
    """Remove a container, where it is still there."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [program, "rm", "--force", name],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_END_SECONDS,
        )  # fmt: skip
