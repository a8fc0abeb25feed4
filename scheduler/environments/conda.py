"""Conda environments, through conda, mamba or micromamba.

A run gets the environment's interpreter and the variables that activation sets. ``conda run`` is not used, because it
would sit between the run and its signals and output.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.environments.base import RunEnvironment, in_front_of_path

__all__ = ["CondaEnvironment"]

_PROGRAMS = ("conda", "mamba", "micromamba")
_FILES = ("environment.yml", "environment.yaml")
_LIST_SECONDS = 60.0
_ACTIVATE_SECONDS = 30.0
_LINES = 5


class CondaEnvironment(RunEnvironment):
    """Conda environment by name; created from the ``environment.yml`` in `folder` if that has the same name."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder

    def problem(self) -> str | None:
        """See `RunEnvironment.problem`."""
        program = _program()
        if program is None:
            return f"conda is not installed: neither CONDA_EXE nor PATH has {', '.join(_PROGRAMS)}"
        try:
            known = _known(program)
        except BadRequest as error:
            return str(error)
        if self.name not in known:
            if self._file() is not None:
                return None
            return f"there is no conda environment {self.name!r}{did_you_mean(self.name, known)}"
        if not (known[self.name] / "bin" / "python").is_file():
            return f"the conda environment {self.name!r} in {known[self.name]} has no bin/python"
        return None

    def to_make(self) -> str | None:
        """See `RunEnvironment.to_make`."""
        program, file = _program(), self._file()
        if program is None or file is None or self.name in _known(program):
            return None
        return f"the conda environment {self.name!r} from {file}"

    def make(self) -> None:
        """Create the environment; see `RunEnvironment.make`. A failed or interrupted creation is rolled back."""
        program, file = _program(), self._file()
        assert program is not None
        what = ["--file", str(file), "--name", self.name]
        words = ["env", "create", *what] if Path(program).name == "conda" else ["create", "--yes", *what]
        made = False
        try:
            done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            made = done.returncode == 0
            if not made:
                output = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}".splitlines()
                last = "\n".join([line for line in output if line.strip()][-_LINES:])
                raise BadRequest(f"{self.to_make()} cannot be created:\n{last}")
        finally:
            _known.cache_clear()
            if not made and self.name in _known(program):
                words = [program, "env", "remove", "--yes", "--name", self.name]
                subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
                _known.cache_clear()

    def python(self) -> str:
        """See `RunEnvironment.python`."""
        return str(self._prefix() / "bin" / "python")

    def variables(self) -> Mapping[str, str]:
        """Return the variables that ``conda activate`` sets, including those of the environment's own scripts."""
        return _activated(self._prefix(), self.name)

    def _prefix(self) -> Path:
        program = _program()
        assert program is not None
        return _known(program)[self.name]

    def _file(self) -> Path | None:
        """Return the file that describes this environment; ``None`` if there is none."""
        for path in (self._folder / name for name in _FILES):
            try:
                content = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError):
                continue
            if isinstance(content, dict) and content.get("name") == self.name:
                return path
        return None


def _program() -> str | None:
    named = (os.environ.get(variable) for variable in ("CONDA_EXE", "MAMBA_EXE"))
    found = next((path for path in named if path and os.access(path, os.X_OK)), None)
    return found or next(filter(None, map(shutil.which, _PROGRAMS)), None)


@cache
def _known(program: str) -> dict[str, Path]:
    """Return the folders of all environments by name; cached, because conda takes up to 1 s to list them."""
    words = [program, "env", "list", "--json"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIST_SECONDS, text=True
        )
        folders = [Path(folder) for folder in json.loads(done.stdout)["envs"]]
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadRequest(f"{program} does not answer: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        output = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise BadRequest(f"{program} does not list its environments: {output}") from error
    known: dict[str, Path] = {}
    for folder in folders:
        known.setdefault("base" if _is_root(folder, folders) else folder.name, folder)
    return known


def _is_root(folder: Path, folders: list[Path]) -> bool:
    """Return whether `folder` is the installation itself: it has conda's programs or contains other environments."""
    return (folder / "condabin").is_dir() or any(other.parent == folder / "envs" for other in folders)


@cache
def _activated(prefix: Path, name: str) -> Mapping[str, str]:
    variables = {
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": name,
        "CONDA_SHLVL": "1",
        "PATH": in_front_of_path(prefix / "bin"),
    }
    try:
        state = json.loads((prefix / "conda-meta" / "state").read_text(encoding="utf-8"))
        variables |= {key: str(value) for key, value in state["env_vars"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass  # the environment has no variables of `conda env config vars`
    scripts = sorted((prefix / "etc" / "conda" / "activate.d").glob("*.sh"))
    return variables | (_set_by(scripts, variables) if scripts else {})


def _set_by(scripts: list[Path], variables: Mapping[str, str]) -> dict[str, str]:
    """Run the activation scripts of packages; return the variables that they change."""
    before = {**os.environ, **variables}
    words = ["bash", "-c", 'for file; do . "$file" >&2; done; env -0', "activate", *map(str, scripts)]
    try:
        done = subprocess.run(
            words, env=before, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_ACTIVATE_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadRequest(
            f"the conda environment in {variables['CONDA_PREFIX']} cannot be activated: {error}"
        ) from error
    after = dict(entry.split("=", 1) for entry in done.stdout.decode(errors="replace").split("\0") if "=" in entry)
    own = ("_", "SHLVL", "PWD", "OLDPWD")
    return {key: value for key, value in after.items() if before.get(key) != value and key not in own}
