"""Files of the demo and of ``bench init``, and the demo's GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.stack.demo import with_a_gpu, write_template


def test_a_template_replaces_no_file_unless_it_may(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    for name in ("b.csv", "a.py"):
        (source / name).write_text(name)
    files = [(name, source / name) for name in ("a.py", "b.csv")]
    assert write_template(files, folder, overwrite=False) == [folder / "a.py", folder / "b.csv"]
    (folder / "a.py").unlink()
    (folder / "b.csv").write_text("mine")
    with pytest.raises(BadRequest):
        write_template(files, folder, overwrite=False)
    assert [path.name for path in folder.iterdir()] == ["b.csv"]
    assert (folder / "b.csv").read_text() == "mine"
    write_template(files, folder, overwrite=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.py": "a.py", "b.csv": "b.csv"}


def test_wanted_gpus_are_kept(tmp_path: Path) -> None:
    settings, gpus = with_a_gpu(Settings(home=tmp_path, simulate="2xA100"))
    assert (settings.simulate, len(gpus.gpus)) == ("2xA100", 2)


def test_there_is_a_gpu_on_any_host(tmp_path: Path) -> None:
    settings, gpus = with_a_gpu(Settings(home=tmp_path))
    assert gpus.gpus
    assert gpus.gpus[0].simulated == (settings.simulate is not None)
