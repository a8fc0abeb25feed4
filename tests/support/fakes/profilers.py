"""Fakes of NVIDIA's ``nsys`` and ``ncu`` on the ``PATH``.

They accept the options used here and refuse any other, print like the originals, run the command, and write a report at its
end. Like an original in the worst case, they exit with 0 whatever the command's status, and end without a report on a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["installed_profilers"]


def installed_profilers(folder: Path, *names: str) -> Path:
    """Write the programs to `folder`, which belongs in front of ``PATH``, and return the folder.

    With ``FAKE_PROFILER_REFUSES`` in their environment, they print its value and run nothing.
    ``FAKE_PROFILER_SECONDS`` is the duration of writing a report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(f"#!{sys.executable} -SE\n{_PROGRAM}\nPROGRAMS[{name!r}](sys.argv[1:])\n")
        path.chmod(0o755)
    return folder


_PROGRAM = """
import os, subprocess, sys, time


def run(name, report, overwrite, words):
    if os.environ.get("FAKE_PROFILER_REFUSES"):
        print(os.environ["FAKE_PROFILER_REFUSES"])
        sys.exit(1)
    if not words:
        print("Missing target application")
        sys.exit(1)
    if os.path.exists(report) and not overwrite:
        print(f"{report} exists")
        sys.exit(1)
    status = subprocess.call(words)
    print(f"Processing events of {name} ...", flush=True)
    time.sleep(float(os.environ.get("FAKE_PROFILER_SECONDS", "0")))
    with open(report, "w") as file:
        file.write(f"{name} {status}\\n")
    print(f"Generated: {report}", flush=True)
    sys.exit(0)


def refuse(option):
    print(f"unrecognised option '{option}'")
    sys.exit(1)


def nsys(words):
    if words.pop(0) != "profile":
        refuse("command")
    allowed = {
        "output": None, "force-overwrite": ("true", "false"), "trace": None, "sample": ("none", "process-tree"),
        "cpuctxsw": ("none", "process-tree"), "wait": ("all", "primary"),
    }
    given = {}
    while words and words[0].startswith("-"):
        name, equals, value = words[0].removeprefix("--").partition("=")
        if name not in allowed or not equals or (allowed[name] and value not in allowed[name]):
            refuse(words[0])
        given[name] = value
        words.pop(0)
    if not set(given.get("trace", "").split(",")) <= {"cuda", "nvtx", "osrt", "cublas", "cudnn", "none"}:
        refuse("trace")
    run("nsys", given["output"] + ".nsys-rep", given.get("force-overwrite") == "true", words)


def ncu(words):
    overwrite, export = False, None
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--force-overwrite":
            overwrite = True
        elif option == "--export":
            export = words.pop(0)
        elif option != "--target-processes" or words.pop(0) not in ("all", "application-only"):
            refuse(option)
    print(f"==PROF== Connected to process {os.getpid()}", flush=True)
    run("ncu", export + ".ncu-rep", overwrite, words)


PROGRAMS = {"nsys": nsys, "ncu": ncu}
"""
