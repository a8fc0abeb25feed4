"""Fixtures of several unit tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from tests.support.data.rows import HEADER, Write
from tests.support.exporters.dcgm import DCGMI, FAKE, Given, NoNvml, Played


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Return a function that makes an exporter with a ``dcgmi`` that replays a copy of a folder of `DCGMI`."""
    monkeypatch.setattr(
        "hypergauge.exporters.dcgm.dmon._FIRST_SECONDS", 20.0
    )  # programs start slowly while many tests run
    made = []
    program = tmp_path / "bin" / "dcgmi"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)

    def make(
        name: str, nvml: object = None, reader: Given | None = None, **environment: str
    ) -> tuple[DcgmExporter, Path]:
        folder = tmp_path / name
        shutil.copytree(DCGMI / name, folder)
        found = {"PATH": str(program.parent), "FAKE_DCGMI": str(folder), "FAKE_DCGMI_SPEED": "0.02", **environment}
        reader = reader or Given(problem="Driver Not Loaded")
        made.append(
            DcgmExporter(
                ExporterOptions(home=tmp_path), environment=found, nvml=nvml or NoNvml(), reader=reader, hostname="n1"
            )
        )
        return made[-1], folder

    yield make
    for one in made:
        one.close()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in front of ``PATH``, which leads to no other conda or docker."""
    folder = tmp_path / "conda" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.delenv("MAMBA_EXE", raising=False)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path) -> Write:
    """Return a function that writes an experiment file of rows next to a ``train.py``, with a ``bench.toml``."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").touch()
    monkeypatch.chdir(work)

    def write(*rows: str, toml: str = "") -> ExperimentFile:
        (work / "bench.toml").write_text(toml)
        path = work / "experiments.csv"
        path.write_text(HEADER + "\n".join(rows) + "\n")
        return ExperimentFile.read(path)

    return write
