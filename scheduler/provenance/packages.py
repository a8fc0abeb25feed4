"""Packages of a run's interpreter. The interpreter lists them; a cache keeps the list until its folders change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["Packages", "packages_of"]

_LIST_SECONDS = 30.0
# Runs on Python 3.8 or newer. The first entry of the path is the working directory, which has no installed packages.
_SCRIPT = """
import json, platform, sys
sys.path.pop(0)
try:
    from importlib.metadata import distributions
except ImportError:
    sys.exit("it is Python " + platform.python_version() + ", which has no importlib.metadata")
lines = {}
for one in distributions():
    name = one.metadata["Name"]
    if not name or name.lower() in lines:
        continue
    line = name + "==" + (one.version or "")
    try:
        origin = json.loads(one.read_text("direct_url.json") or "{}")
        if "vcs_info" in origin:
            line = "%s @ %s+%s@%s" % (name, origin["vcs_info"]["vcs"], origin["url"], origin["vcs_info"]["commit_id"])
    except (ValueError, KeyError, TypeError):
        pass
    lines[name.lower()] = line
print(json.dumps({"version": platform.python_version(), "path": sys.path, "lines": [lines[n] for n in sorted(lines)]}))
"""


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages of an interpreter: its version, and one requirements line for each distribution, sorted by name.

    `problem` is the reason if they are unknown.
    """

    version: str = ""
    lines: tuple[str, ...] = ()
    problem: str | None = None

    def lock(self, python: str) -> str:
        """Return a requirements file that installs the same packages."""
        head = f"# {python}, Python {self.version}" if self.problem is None else f"# {python}: {self.problem}"
        return "\n".join([head, *self.lines]) + "\n"


def packages_of(
    start: Sequence[str], cache: Path, variables: Mapping[str, str], *, image: str | None = None
) -> Packages:
    """Return the packages of the interpreter that the command `start` starts.

    Parameters
    ----------
    cache
        Folder of the cache. An entry is valid until a folder of the interpreter's path changes.
    variables
        Environment variables of the interpreter.
    image
        Id of the container image, if any; images never change, so their entries stay valid.
    """
    key = [*start[-1:], image] if image else [*start, variables.get("PYTHONPATH", "")]
    known = cache / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"
    if (kept := _kept(known)) is not None:
        return kept
    try:
        done = subprocess.run(
            [*start, "-c", _SCRIPT],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIST_SECONDS, env=dict(variables),
        )  # fmt: skip
        answer = json.loads(done.stdout.splitlines()[-1])  # NVIDIA's images print a welcome message first
        found = Packages(answer["version"], tuple(answer["lines"]))
        folders = [] if image else [folder for folder in answer["path"] if folder]
    except (OSError, subprocess.TimeoutExpired) as error:
        return Packages(problem=f"its packages cannot be listed: {error}")
    except (ValueError, LookupError, TypeError):
        output = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        return Packages(problem=f"its packages cannot be listed: {output.splitlines()[-1]}")
    private.make_folder(cache)
    write_atomically(known, json.dumps({**answer, "stamps": {folder: _stamp(folder) for folder in folders}}))
    return found


def _kept(path: Path) -> Packages | None:
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if any(_stamp(folder) != stamp for folder, stamp in kept["stamps"].items()):
            return None
        return Packages(kept["version"], tuple(kept["lines"]))
    except (OSError, ValueError, KeyError):
        return None


def _stamp(folder: str) -> int | None:
    """Return the modification time of `folder` in nanoseconds; ``None`` if it does not exist."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - faster than pathlib, for many folders at every workload
    except OSError:
        return None
