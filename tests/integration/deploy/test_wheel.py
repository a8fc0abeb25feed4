"""The package as pip installs it from a wheel: every file of the rooms, compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.waiting import HUNG_SECONDS
from tests.support.wheel import ROOT, build_wheel

pytest.importorskip("hatchling", reason="hatchling builds the wheel; `make test` installs it", exc_type=ImportError)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_it_has_every_file_of_the_rooms(wheel: Path) -> None:
    source = ROOT / "src" / "hypergauge"
    files = {
        Path("hypergauge", *path.relative_to(source).parts).as_posix()
        for room in source.iterdir()
        for path in ([room] if room.is_file() else room.resolve().rglob("*"))
        for path in [source / room.name / path.relative_to(room.resolve()) if room.is_dir() else path]
        if path.is_file() and "__pycache__" not in path.parts
    }
    members = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("hypergauge/")}
    assert members == files


def test_an_installed_package_writes_its_templates(wheel: Path, tmp_path: Path) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True, timeout=HUNG_SECONDS)
    assert list(site.glob("hypergauge/cli/templates/*/__pycache__")), "pip compiled no template"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hypergauge.cli", "init", "mine"],
        env={**os.environ, "PYTHONPATH": str(site), "BENCH_HOME": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["experiments.csv", "train.py"]
