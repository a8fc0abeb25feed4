"""Manifest of a run: command, packages, code and hardware, to document and repeat the run.

The scheduler collects the content while the supervisor starts, so that it does not delay the run. The manifest contains
neither secrets nor environment variables.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Inventory
from hypergauge.scheduler.environments.containers import remove_container
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.provenance.hardware import hardware
from hypergauge.scheduler.provenance.packages import Packages, packages_of
from hypergauge.scheduler.provenance.sources import Sources

__all__ = ["FILES", "MANIFEST", "ManifestWriter", "PendingManifests", "differences", "read_manifest"]

MANIFEST, LOCK, DIFF = FILES = ("manifest.json", "requirements.lock", "git.diff")
_INSPECT_SECONDS = 30.0
_MOST_DIFFERENCES = 10


class ManifestWriter:
    """Writer of the manifests of runs on this host.

    Parameters
    ----------
    home
        ``BENCH_HOME``.
    inventory
        GPUs of this host.
    """

    def __init__(self, home: Path, inventory: Inventory) -> None:
        self._cache, self._inventory = home / "packages", inventory

    def begin(self, jobs: Sequence[Job]) -> PendingManifests:
        """Begin the manifests of `jobs` in background threads."""
        pool = ThreadPoolExecutor(4, thread_name_prefix="manifest")
        commands = {_interpreter(job.command): job.command for job in jobs}
        pending = PendingManifests(
            {key: pool.submit(self._packages, command) for key, command in commands.items()},
            {folders: pool.submit(Sources.of, folders) for folders in {_folders(job.command) for job in jobs}},
            pool.submit(lambda: self._hardware),
        )
        pool.shutdown(wait=False)
        return pending

    @cached_property
    def _hardware(self) -> dict[str, Any]:
        return hardware(self._inventory)

    def _packages(self, command: Command) -> Packages | None:
        if command.python is None:
            return None
        container = command.container
        shell = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        if container is None:
            return packages_of([command.python], self._cache, {**shell, **command.variables})
        words = [container.program, "image", "inspect", "--format", "{{.Id}}", container.image]
        try:
            done = subprocess.run(words, capture_output=True, check=True, timeout=_INSPECT_SECONDS, text=True)
        except (OSError, subprocess.SubprocessError) as error:
            return Packages(problem=str(error))
        name = f"bench-packages-{uuid.uuid4().hex}"
        start = container.query_command([command.python], name)
        found = packages_of(start, self._cache, shell, image=done.stdout.strip())
        if found.problem is not None:  # after a timeout, docker's program has ended but the container still runs
            remove_container(container.program, name)
        return found


@dataclass(frozen=True)
class PendingManifests:
    """Manifests in progress; jobs share interpreters, folders and hardware."""

    packages: Mapping[tuple[str, ...], Future[Packages | None]]
    sources: Mapping[tuple[Path, ...], Future[Sources | None]]
    hardware: Future[dict[str, Any]]

    def files(self, job: Job) -> dict[str, str]:
        """Return the contents of a job's manifest files, by name."""
        command = job.command
        packages, sources = self.packages[_interpreter(command)].result(), self.sources[_folders(command)].result()
        files = {}
        if packages is not None:
            files[LOCK] = packages.lock(command.python or "")
        if sources is not None and sources.diff:
            files[DIFF] = sources.diff
        manifest = {
            "name": job.name,
            "command": job.shown_command,
            "directory": str(command.directory),
            "environment": job.environment,
            "image": command.container.image if command.container else None,
            "collocation": str(job.collocation),
            "devices": None if job.devices is None else [gpu.uuid for gpu in job.devices],
            "request": job.request,
            "python": None if packages is None else {"executable": command.python, "version": packages.version},
            "git": None if sources is None else _git(sources),
            "hardware": self.hardware.result(),
        }
        return {MANIFEST: json.dumps(manifest, indent=2) + "\n", **files}

    def write(self, folder: RunFolder, job: Job) -> None:
        """Write a job's manifest into the folder of its run."""
        for name, content in self.files(job).items():
            descriptor = os.open(folder.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)


def read_manifest(folder: RunFolder) -> dict[str, str] | None:
    """Return the contents of a run's manifest files, by name; ``None`` if there is no valid manifest on this host."""
    found = {name: (folder.path / name) for name in FILES}
    files = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in found.items() if path.is_file()}
    try:
        return files if isinstance(json.loads(files[MANIFEST]), dict) else None
    except (KeyError, ValueError):
        return None


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences of two manifests that may affect a run's metrics, in readable form."""
    before, after = json.loads(then[MANIFEST]), json.loads(now[MANIFEST])
    found = []
    old, new = before["git"] or {}, after["git"] or {}
    if old.get("commit") != new.get("commit"):
        found.append(f"the commit was {_short(old.get('commit'))} and is {_short(new.get('commit'))}")
    if old.get("diff_sha256") != new.get("diff_sha256"):
        found.append("the uncommitted changes of the repository are different")
    if (was := (before["python"] or {}).get("version")) != (is_now := (after["python"] or {}).get("version")):
        found.append(f"Python was {was} and is {is_now}")
    changed = _changed(_lines(then.get(LOCK)), _lines(now.get(LOCK)))
    found += changed[:_MOST_DIFFERENCES]
    if len(changed) > _MOST_DIFFERENCES:
        found.append(f"and {len(changed) - _MOST_DIFFERENCES} more packages differ")
    for key in ("kernel", "driver"):
        if (was := before["hardware"].get(key)) != (is_now := after["hardware"].get(key)):
            found.append(f"the {key} was {was} and is {is_now}")
    return found


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"package {name} was {then.get(name, 'not installed')} and is {now.get(name, 'not installed')}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]


def _lines(lock: str | None) -> dict[str, str]:
    """Return the versions or origins in a requirements file, by package name."""
    found = {}
    for line in (lock or "").splitlines():
        name, _, version = line.replace(" @ ", "==", 1).partition("==")
        if not line.startswith("#"):
            found[name] = version
    return found


def _git(sources: Sources) -> dict[str, Any]:
    return {
        "root": sources.root,
        "commit": sources.commit,
        "branch": sources.branch,
        "diff_sha256": sources.digest,
        "diff_is_whole": sources.whole,
        "problem": sources.problem,
    }


def _interpreter(command: Command) -> tuple[str, ...]:
    return (command.container.image if command.container else "", command.python or "")


def _folders(command: Command) -> tuple[Path, ...]:
    """Return the folders of the code by preference: those of the script, then the working directory."""
    return (*command.folders, command.directory)


def _short(commit: str | None) -> str:
    return commit[:10] if commit else "none"
