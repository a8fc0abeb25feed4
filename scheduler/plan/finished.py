"""Finished experiment files, which need no service."""

from __future__ import annotations

from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan.plan import is_due

__all__ = ["is_finished"]


def is_finished(settings: Settings, path: Path, rerun: str | None = None) -> bool:
    """Return whether nothing is left to do by the file alone, so that no service needs to start.

    The artifacts of its runs must be delivered to MLflow, or not be on this host.
    """
    file, problems = ExperimentFile.parse(path)
    if problems or any(is_due(row, rerun) for row in file.rows):
        return False
    folders = [RunFolder(settings.runs_dir / row.run) for row in file.rows if row.run]
    return all(folder.delivered or folder.end() is None for folder in folders)
