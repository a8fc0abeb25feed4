"""What several files of unit tests begin with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.dcgm import DcgmExporter
from exporters.registry import ExporterOptions
from tests.dcgm_listener import DCGMI, FAKE, Given, NoNvml, Played


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Make listeners whose ``dcgmi`` plays a folder of `DCGMI`, of which they have a copy to change."""
    monkeypatch.setattr("exporters.dcgm.dmon._FIRST_SECONDS", 20.0)  # where many tests run, a program starts slowly
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
