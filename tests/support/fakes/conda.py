"""Fake of conda on the ``PATH``: `env list`, `env create` and `env remove`, without other flags.

Environments are folders in ``envs`` next to the program's folder, with the tests' interpreter. The output has conda's
format; an unknown package fails a creation as in conda.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["add", "install"]


def install(folder: Path, name: str = "conda") -> Path:
    """Write the program to `folder`, which belongs in front of ``PATH``, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable} -E\nROOT = {str(folder.parent)!r}\nNAME = {name!r}\n{_PROGRAM}")
    program.chmod(0o755)
    return program


def add(folder: Path, name: str, scripts: dict[str, str] | None = None) -> Path:
    """Add an environment to the installation whose programs are in `folder`, with activation scripts; return it."""
    prefix = folder.parent / "envs" / name
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\nversion = {version}\n")
    (prefix / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
    for file, content in (scripts or {}).items():
        path = prefix / "etc" / "conda" / "activate.d" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return prefix


_PROGRAM = """
import argparse, json, os, shutil, sys

ENVS = os.path.join(ROOT, "envs")


def listed():
    names = sorted(os.listdir(ENVS)) if os.path.isdir(ENVS) else []
    return [ROOT, *(os.path.join(ENVS, name) for name in names)]


def create(file, name):
    import yaml

    with open(file) as opened:
        wanted = yaml.safe_load(opened)
    prefix = os.path.join(ENVS, name or wanted["name"])
    if os.path.exists(prefix):
        sys.exit(f"CondaValueError: prefix already exists: {prefix}")
    for folder in ("bin", "conda-meta"):
        os.makedirs(os.path.join(prefix, folder))
    print("Channels:\\n - defaults\\nPlatform: linux-64\\nCollecting package metadata (repodata.json): done")
    unknown = [one for one in wanted.get("dependencies", []) if one.split("=")[0] not in ("python", "pip")]
    if unknown:  # leaves what it has begun, as pip's part of a creation does
        print("Solving environment: failed")
        sys.stderr.write("\\nPackagesNotFoundError: The following packages are not available from current channels:\\n\\n")
        sys.stderr.write("".join(f"  - {one}\\n" for one in unknown))
        sys.exit(1)
    os.symlink(sys.executable, os.path.join(prefix, "bin", "python"))
    print("Solving environment: done")


parser = argparse.ArgumentParser(NAME, allow_abbrev=False)
commands = parser.add_subparsers(required=True)
env = commands.add_parser("env", allow_abbrev=False).add_subparsers(required=True)
command = env.add_parser("list", allow_abbrev=False)
command.add_argument("--json", action="store_true", required=True)
command.set_defaults(act=lambda given: print(json.dumps({"envs": listed()}, indent=2)))
creators = [env.add_parser("create", allow_abbrev=False)]
if NAME != "conda":
    creators = [commands.add_parser("create", allow_abbrev=False)]
    creators[0].add_argument("--yes", action="store_true", required=True)
for command in creators:
    command.add_argument("--file", "-f", required=True)
    command.add_argument("--name", "-n")
    command.set_defaults(act=lambda given: create(given.file, given.name))
command = env.add_parser("remove", allow_abbrev=False)
command.add_argument("--name", "-n", required=True)
command.add_argument("--yes", action="store_true", required=True)
command.set_defaults(act=lambda given: shutil.rmtree(os.path.join(ENVS, given.name)))
given = parser.parse_args()
given.act(given)
"""
