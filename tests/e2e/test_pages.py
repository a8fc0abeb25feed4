"""Pages of the documentation: a reader who runs their blocks in order gets what they show."""

from __future__ import annotations

import contextlib
import os
import re
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
START = sorted((DOCS / "start").glob("*.md"))
TASKS = DOCS / "how-to" / "index.md"
VARIABLES = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "BENCH_SIMULATE": "2xH100"
}  # fmt: skip


def home_in(folder: Path) -> Home:
    (folder / "work").mkdir(parents=True)
    return Home(folder / "home", folder / "work", VARIABLES)


@pytest.fixture(scope="session")
def demo() -> Iterator[Path]:
    """A capsule of the demo's experiment."""
    with tempfile.TemporaryDirectory(prefix="bench-demo-") as folder:
        home = home_in(Path(folder))
        try:
            (home.folder / "train.py").write_text("raise SystemExit('this is not the demo')")
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


def tasks(section: str) -> list[Path]:
    """Return the how-to pages that the index lists in a section."""
    listed = TASKS.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [TASKS.with_name(name) for name in re.findall(r"\]\((.+?\.md)\)", listed)]


def of(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: f"{page.parent.name}/{page.stem}")


class Pages:
    """Pages of one section. Sections run in parallel."""

    def test_what_a_page_shows_works(self, page: Path, reader: Reader) -> None:
        assert run_page(page, reader) > 0


@of(START)
class TestStart(Pages):
    pass


@of(tasks("Run"))
class TestRun(Pages):
    pass


@of([*tasks("Look"), *tasks("Move")])
class TestLook(Pages):
    pass


@of(tasks("Measure"))
class TestMeasure(Pages):
    pass


@of(tasks("Serve"))
class TestServe(Pages):
    pass


def test_the_index_lists_each_task_once() -> None:
    listed = re.findall(r"\]\((.+?\.md)\)", TASKS.read_text())
    assert sorted(listed) == sorted(page.name for page in TASKS.parent.glob("*.md") if page != TASKS)
    assert len(listed) == sum(len(tasks(section)) for section in ("Run", "Look", "Move", "Measure", "Serve"))
