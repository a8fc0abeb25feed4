"""Repetition of a run from its manifest: ``bench schedule --from-run RUN``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile
from hypergauge.scheduler.experiment.parameters import HIDDEN
from hypergauge.scheduler.job import Job, job_from_command, job_from_row
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.provenance.manifest import MANIFEST, read_manifest
from hypergauge.sql.runs.runs import KnownRun

__all__ = ["RepeatedRun"]


@dataclass(frozen=True)
class RepeatedRun:
    """Run to repeat, with its manifest.

    Attributes
    ----------
    label
        Readable name of the run.
    files
        Contents of the manifest files, by name.
    """

    label: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, label: str, folder: RunFolder, host: str) -> RepeatedRun:
        """Read the manifest in a run's folder.

        Raises
        ------
        BadRequest
            There is no manifest on this host.
        """
        files = read_manifest(folder)
        if files is None:
            raise BadRequest(f"run {label} has no manifest on this host; it ran on {host}")
        return cls(label, files)

    @property
    def content(self) -> dict[str, Any]:
        """Content of the main manifest file."""
        content: dict[str, Any] = json.loads(self.files[MANIFEST])
        return content

    @property
    def directory(self) -> Path:
        """Folder in which the user scheduled the run; relative paths are relative to it.

        Raises
        ------
        BadRequest
            The folder no longer exists.
        """
        path = Path(self.content["request"]["directory"])
        if not path.is_dir():
            raise BadRequest(f"run {self.label} was scheduled in {path}, which is no longer there")
        return path

    def job(
        self, inventory: Inventory, exporters: Mapping[str, str | None], previous: KnownRun, attempt: int,
        reactions: Reactions | None = None,
    ) -> Job:  # fmt: skip
        """Return the job of the next attempt; the working directory must be `directory`.

        Raises
        ------
        BadRequest
            Something that the run needs no longer exists, or a parameter was a secret.
        """
        request, name = self.content["request"], self.content["name"]
        if HIDDEN in json.dumps(request):
            raise BadRequest(
                f"run {self.label} had a parameter that looks secret, which is not in its manifest: repeat it from "
                f"{request.get('file') or 'its command line'}"
            )
        uuids = self.content["devices"]
        devices = None if uuids is None else tuple(inventory.find(uuid) for uuid in uuids)
        if "words" in request:
            job = job_from_command(
                request["words"],
                name=name,
                devices=devices,
                collocation=Collocation.parse(self.content["collocation"]),
                environment=Environment.parse(request.get("environment", "-")),
                exporters=request.get("exporters"),
                profilers=tuple(request.get("profilers", ())),
            )
        else:
            job = self._row_job(request, inventory, exporters, reactions)
        return replace(
            job, name=name, devices=devices, fingerprint=previous.fingerprint,
            position=previous.position, attempt=attempt, previous=previous, line=None,
        )  # fmt: skip

    def _row_job(
        self,
        request: Mapping[str, Any],
        inventory: Inventory,
        exporters: Mapping[str, str | None],
        reactions: Reactions | None,
    ) -> Job:
        file = ExperimentFile.from_cells(Path(request["file"]), request["cells"])
        try:
            checks.check(file, inventory, exporters, reactions)
        except BadExperimentFile as error:
            what = "; ".join(problem.message for problem in error.problems)
            raise BadRequest(f"run {self.label} cannot be repeated: {what}") from error
        return job_from_row(file, file.rows[0], inventory, position=1, attempt=1, previous=None)
