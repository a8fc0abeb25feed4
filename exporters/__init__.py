"""Listeners: each a pure reading of one source into metric families, and the one HTTP server that they share."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
