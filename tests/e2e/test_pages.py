"""Pages of the documentation: a reader who runs their blocks in order gets what they show."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.slurm import site_in
from tests.support.home import Home
from tests.support.pages import Reader, run_page
from tests.support.servers.object_store import object_store

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for part in ("start", "how-to") for page in (DOCS / part).glob("*.md") if page.stem != "index")
VARIABLES = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "BENCH_SIMULATE": "2xH100"
}  # fmt: skip


def home_in(folder: Path) -> Home:
    (folder / "work").mkdir(parents=True)
    return Home(folder / "home", folder / "work", VARIABLES)


@pytest.fixture(scope="module")
def demo() -> Iterator[Path]:
    """A capsule of the demo's experiment."""
    with tempfile.TemporaryDirectory(prefix="bench-demo-") as folder:
        home = home_in(Path(folder))
        try:
            home.bench("demo")
            home.bench("export", "0", "-o", "demo.capsule")
            yield home.folder / "demo.capsule"
        finally:
            home.bench("down")


@pytest.fixture
def reader(page: Path, demo: Path) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="page-") as folder, contextlib.ExitStack() as undo:
        text = page.read_text()
        if "<!--- slurm --->" in text:
            home: Home = undo.enter_context(site_in(Path(folder)))
            home.variables |= {name: value for name, value in VARIABLES.items() if name != "BENCH_SIMULATE"}
        else:
            home = home_in(Path(folder))
        if "<!--- store --->" in text:
            home.variables |= undo.enter_context(object_store(Path(folder))).variables()
        reader = Reader(home, demo)
        undo.callback(reader.end)
        yield reader


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_what_a_page_shows_works(page: Path, reader: Reader) -> None:
    assert run_page(page, reader) > 0
