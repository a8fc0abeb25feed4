"""Questions put to the database: selection, comparison, data frames."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
from insight.frames import frame, summary

__all__ = ["frame", "summary"]
