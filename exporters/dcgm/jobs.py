"""Batch jobs by GPU, in the files that a cluster's prologue writes for dcgm-exporter."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["read_jobs"]

_NAME = re.compile(r"\d+(\.\d+)?")


def read_jobs(folder: Path | None) -> dict[str, list[str]]:
    """Return jobs by GPU: a file ``<gpu>`` or ``<gpu>.<instance>`` holds a job's id on each line.

    A file that cannot be read names no job.
    """
    jobs: dict[str, list[str]] = {}
    try:
        paths = list(folder.iterdir()) if folder else []
    except OSError:  # not created yet
        return jobs
    for path in paths:
        if _NAME.fullmatch(path.name):
            try:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
            jobs[path.name] = [job for line in lines if (job := line.strip())]
    return jobs
