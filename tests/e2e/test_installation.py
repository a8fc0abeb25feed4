"""A plain user's first commands after ``pip install`` of the wheel in a new virtual environment."""

from __future__ import annotations

import contextlib
import ensurepip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import HUNG_SECONDS
from tests.support.wheel import build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
pytest.importorskip("hatchling", reason="hatchling builds the wheel; `make test` installs it", exc_type=ImportError)

# The user `nobody` on most systems. Any id but root's would do.
_NOBODY = 65534
_DOWNLOAD_SECONDS = 900.0


class User:
    """Plain user with a home, a virtual environment and no settings; the present user unless that is root."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.scripts = home / "venv" / "bin"
        self._id = _NOBODY if os.getuid() == 0 else None
        if self._id is not None:
            os.chown(home, self._id, self._id)

    def run(self, *command: str | Path, timeout: float = HUNG_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a command in the home, outside this checkout and its virtual environment."""
        names = ("BENCH_", "MLFLOW_", "PYTHON", "VIRTUAL_ENV", "XDG_", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        return subprocess.run(
            [*map(str, command)],
            env={**kept, "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "LOGNAME": "nobody"},
            cwd=self.home,
            user=self._id,
            group=self._id,
            extra_groups=None if self._id is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def bench(self, *words: str) -> str:
        """Run ``bench`` as installed, which must succeed, and return its output."""
        done = self.run(self.scripts / "bench", *words)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """A user who has installed the wheel with its dependencies; skips without a package index."""
    with tempfile.TemporaryDirectory(prefix="bench-user-") as folder:
        Path(folder).chmod(0o755)
        wheel = build_wheel(Path(folder))
        wheel.chmod(0o644)
        (home := Path(folder) / "home").mkdir()
        user = User(home)
        user.run("mkdir", home / "tmp")
        made = user.run(_interpreter(user), "-m", "venv", "--without-pip", home / "venv")
        assert made.returncode == 0, made.stderr
        # Debian packages `venv` without pip, so pip comes from this interpreter.
        [pip] = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
        shutil.copy(pip, folder)
        install: list[str | Path] = [user.scripts / "python", Path(folder, pip.name, "pip"), "install", "--quiet"]
        installed = user.run(*install, f"hypergauge[all] @ {wheel.as_uri()}", timeout=_DOWNLOAD_SECONDS)
        if installed.returncode != 0:
            # The package itself needs no index: if it installs, the dependencies are out of reach.
            alone = user.run(*install, "--no-deps", "--no-index", wheel)
            assert alone.returncode == 0, alone.stderr
            pytest.skip(f"its dependencies cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
        yield user
        user.bench("down")


def _interpreter(user: User) -> str:
    """Return an interpreter that the user may execute: this one, or one of the system."""
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    recent = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in (str(own), "/usr/local/bin/python3", "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if user.run(python, "-c", recent).returncode == 0:
                return python
    pytest.skip("a plain user can execute no Python 3.11 or newer of this host")


def test_first_commands_run_as_the_pages_show_them(user: User) -> None:
    user.bench("init", "digits")
    assert sorted(path.name for path in (user.home / "digits").iterdir()) == ["experiments.csv", "train.py"]
    demo = user.bench("demo")
    assert "0/3/2" in demo
    assert "Workload 0/3" in demo
    user.bench("schedule", "digits/experiments.csv")
    assert "finished" in user.bench("list", "1")
