"""The exporter in `examples`, installed as a third party's and scraped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hypergauge.exporters.serving.registry import GROUP, ExporterOptions, Registry
from hypergauge.scheduler.experiment.cells import LISTENERS
from tests.support.exporters.golden import promtool_findings
from tests.support.waiting import HUNG_SECONDS
from tests.support.world import World

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/exporter"
VMSTAT = "pgfault 1000\npgmajfault 7\npswpin 2\npswpout 3\nnr_free_pages 5\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with its installation by pip from a wheel."""
    folder = tmp_path_factory.mktemp("exporter")
    file = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    project = file["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    groups = project["entry-points"].items()
    points = [line for group, names in groups for line in (f"[{group}]", *(f"{key} = {names[key]}" for key in names))]
    members = {
        **{
            name: (EXAMPLE / name).read_text()
            for name in file["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
        },
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": "\n".join(points) + "\n",
    }
    record = f"{stem}.dist-info/RECORD"
    members[record] = "".join(f"{name},,\n" for name in [*members, record])
    with zipfile.ZipFile(wheel := folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    target = folder / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(command, check=True, timeout=HUNG_SECONDS)
    return target


def shown_row() -> str:
    """Return the page's row of the catalog."""
    page = (ROOT / "docs/how-to/exporters.md").read_text()
    [text] = re.findall(r"^```sql\n(insert .*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(text)


def environment(installed: Path, home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "BENCH_HOME": str(home)}


def test_it_is_listed_and_scraped(installed: Path, tmp_path: Path) -> None:
    bench = [sys.executable, "-m", "hypergauge.cli", "exporter"]
    surroundings = environment(installed, tmp_path)
    listed = subprocess.run(
        [*bench, "list", "--json"], env=surroundings, capture_output=True, check=True, timeout=HUNG_SECONDS
    )
    assert {"name": "paging", "works": True, "reason": None} in json.loads(listed.stdout)
    with subprocess.Popen([*bench, "run", "paging"], env=surroundings, stdout=subprocess.PIPE, text=True) as exporter:
        assert exporter.stdout is not None
        url = exporter.stdout.readline().split()[-1]
        with urllib.request.urlopen(url, timeout=HUNG_SECONDS) as answer:
            exposition = answer.read().decode()
        exporter.terminate()
    assert exporter.returncode == 0
    assert re.search(r'^paging_faults_total\{kind="minor"\} [1-9]', exposition, re.MULTILINE)
    assert 'bench_exporter_up{exporter="paging"} 1.0' in exposition
    assert promtool_findings(exposition.encode()) == []


def test_its_metrics_are_quantities_by_their_own_names(installed: Path, tmp_path: Path, world: World) -> None:
    (tmp_path / "vmstat").write_text(VMSTAT)
    script = (
        "import sys; from pathlib import Path; from hypergauge.exporters.serving.registry import *; from hypergauge.exporters.serving.text import render\n"
        "factory = Registry.load()['paging']\n"
        "exporter = factory(ExporterOptions(home=Path('/nowhere')), Path(sys.argv[1]))\n"
        "sys.stdout.buffer.write(render(exporter.collect()))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "vmstat")]
    exposition = subprocess.run(
        command, env=environment(installed, tmp_path), stdout=subprocess.PIPE, check=True, timeout=HUNG_SECONDS
    )
    world.connection.execute(shown_row())
    world.write(world.scraped([(at, exposition.stdout) for at in (1.8e9, 1.8e9 + 1)], "paging"))
    found = world.connection.execute("select quantity, labels from series order by quantity, labels::text").fetchall()
    assert found == [
        ("major_faults", {"kind": "major"}),
        ("paging_faults_total", {"kind": "minor"}),
        ("paging_swapped_bytes_total", {"direction": "in"}),
        ("paging_swapped_bytes_total", {"direction": "out"}),
    ]


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs/how-to/exporters.md").read_text()
    written = dict(re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL))
    assert written == {name: (EXAMPLE / name).read_text() for name in ("paging.py", "pyproject.toml")}


def test_the_page_lists_every_exporter(tmp_path: Path) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [^|\n]+ \| [^|\n]+ \|$", (ROOT / "docs/reference/exporters.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(LISTENERS)
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert set(points) <= set(LISTENERS)
    registry = Registry.load(EntryPoint(name, value, GROUP) for name, value in points.items())
    assert {name: registry.create(name, ExporterOptions(tmp_path)).name for name in registry} == {n: n for n in points}
