"""Scripts beside files that are named like packages of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_file_that_hides_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "sql.py").write_text("QUERY = 'select 1'\n")
    script = tmp_path / "look.py"
    script.write_text("from insight import frame\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {tmp_path / 'sql.py'} hides hypergauge's package 'sql': rename the file"
    )
