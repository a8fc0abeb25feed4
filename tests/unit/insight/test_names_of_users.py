"""Users' modules with the names of our packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["sql", "scheduler"])
def test_a_users_module_and_a_room_of_the_same_name_are_two(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("QUERY = 'select 1'\n")
    script = tmp_path / "look.py"
    script.write_text(f"import {name}\nfrom hypergauge.insight import frame\nprint({name}.QUERY, frame.__module__)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "select 1 hypergauge.insight.export.frames\n"
