"""Data files of an installed package, compiled as installers compile it."""

from __future__ import annotations

import compileall
import importlib
import sys
from pathlib import Path

import pytest

from hypergauge.core.files.package_data import package_files


def test_bytecode_is_no_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "installed_package"
    (package / "templates" / "init").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "templates" / "train.py").write_text("print(1)")
    (package / "templates" / "init" / "other.py").write_text("print(2)")
    (package / "templates" / "init" / "b.csv").write_text("a")
    assert compileall.compile_dir(package, quiet=1)
    assert compileall.compile_dir(package, quiet=1, legacy=True)  # beside the source, as `compileall -b` does
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        files = list(package_files("installed_package", "templates"))
        assert [name for name, _ in files] == ["init/b.csv", "init/other.py", "train.py"]
        assert [file.read_text() for _, file in files] == ["a", "print(2)", "print(1)"]
    finally:
        sys.modules.pop("installed_package", None)
