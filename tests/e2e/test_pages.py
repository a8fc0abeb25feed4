"""Pages of the documentation: a reader who runs their blocks in order gets what they show."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.home import Home
from tests.support.pages import Reader, run_page

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for part in ("start",) for page in (DOCS / part).glob("*.md"))
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
def reader(demo: Path) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="bench-page-") as folder:
        reader = Reader(home_in(Path(folder)), demo)
        try:
            yield reader
        finally:
            reader.end()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_what_a_page_shows_works(page: Path, reader: Reader) -> None:
    assert run_page(page, reader) > 0
