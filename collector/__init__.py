"""Scrapes targets, spools, tags and writes. Nothing else writes samples."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
