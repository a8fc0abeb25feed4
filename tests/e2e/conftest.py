"""One stack for all end-to-end tests of a process."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.slurm import Site, site_in
from tests.support.data.tags import all_tags_are_true
from tests.support.home import Home


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """A home in a short folder, with its stack up; whatever tests did to it, every sample in it has its right tag."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-e2e-") as folder,
        Home(Path(folder) / "home", Path(folder) / "work").stack() as home,
    ):
        yield home
        try:
            all_tags_are_true(home)
        except AssertionError as error:
            error.add_note(home.said())
            raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test what the commands and services of its home said."""
    report = yield
    home = getattr(item, "funcargs", {}).get("home")
    if call.when == "call" and report.failed and isinstance(home, Home):
        report.sections.append(("commands and services", home.said()))
    return report


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A Slurm with two nodes and a stack beside it; skips where there can be none."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, site_in(Path(folder)) as site:
        yield site
