"""Fakes of NVIDIA's ``nsys`` and ``ncu`` on the ``PATH``.

They accept the options used here and refuse any other, print like the originals, run the command, and write a report at its
end. They convert a report too: ``nsys`` to the tables that its documentation lists, with the events of `NSYS_EVENTS`, ``ncu``
to a page of a real one. Like an original in the worst case, they exit with 0 whatever the command's status, and end without a report on a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.reports import RAW_PAGE

__all__ = ["NSYS_EVENTS", "NSYS_START", "installed_profilers"]

# Unix time of the session's start, in ns.
NSYS_START = 1_790_000_000_000_000_000
# Statements that make an export, with the columns of Nsight Systems' schema reference, without those that are not read.
NSYS_EVENTS = f"""
create table StringIds (id integer primary key, value text not null);
insert into StringIds values (1, 'void gemm<float>(float*)'), (2, 'cudaLaunchKernel_v7000'), (3, 'poll'), (4, 'forward');
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text, localTime text);
insert into TARGET_INFO_SESSION_START_TIME values ({NSYS_START}, '', '');
create table CUPTI_ACTIVITY_KIND_KERNEL (
    start integer not null, end integer not null, deviceId integer not null, contextId integer not null,
    streamId integer not null, correlationId integer, globalPid integer, demangledName integer not null,
    shortName integer not null, gridX integer);
insert into CUPTI_ACTIVITY_KIND_KERNEL values
    (1000000000, 1000500000, 0, 1, 7, 5, 1, 1, 1, 1), (2000000000, 2000250000, 0, 1, 7, 6, 1, 1, 1, 1);
create table CUPTI_ACTIVITY_KIND_MEMCPY (
    start integer not null, end integer not null, deviceId integer not null, contextId integer not null,
    streamId integer not null, correlationId integer, globalPid integer, bytes integer not null, copyKind integer not null);
insert into CUPTI_ACTIVITY_KIND_MEMCPY values (900000000, 900100000, 0, 1, 7, 4, 1, 4096, 1);
create table CUPTI_ACTIVITY_KIND_RUNTIME (
    start integer not null, end integer not null, eventClass integer not null, globalTid integer, correlationId integer,
    nameId integer not null, returnValue integer not null, callchainId integer);
insert into CUPTI_ACTIVITY_KIND_RUNTIME values (999000000, 999010000, 0, 281500000000001, 5, 2, 0, null);
create table OSRT_API (
    start integer not null, end integer not null, eventClass integer not null, globalTid integer, correlationId integer,
    nameId integer not null, returnValue integer not null, nestingLevel integer, callchainId integer not null);
insert into OSRT_API values (100000000, 200000000, 27, 281500000000001, null, 3, 0, null, 0);
create table NVTX_EVENTS (
    start integer not null, end integer, eventType integer not null, rangeId integer, category integer, color integer,
    text text, globalTid integer, endGlobalTid integer, textId integer, domainId integer);
insert into NVTX_EVENTS values
    (998000000, 1001000000, 59, null, null, null, 'step', 281500000000001, null, null, 0),
    (998500000, 1000000000, 59, null, null, null, null, 281500000000001, null, 4, 0),
    (998600000, null, 34, null, null, null, 'mark', 281500000000001, null, null, 0);
"""


def installed_profilers(folder: Path, *names: str) -> Path:
    """Write the programs to `folder`, which belongs in front of ``PATH``, and return the folder.

    With ``FAKE_PROFILER_REFUSES`` in their environment, they print its value and run nothing.
    ``FAKE_PROFILER_SECONDS`` is the duration of writing a report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(
            f"#!{sys.executable} -SE\nRAW_PAGE, NSYS_EVENTS = {str(RAW_PAGE)!r}, {NSYS_EVENTS!r}\n"
            f"{_PROGRAM}\nPROGRAMS[{name!r}](sys.argv[1:])\n"
        )
        path.chmod(0o755)
    return folder


_PROGRAM = """
import os, subprocess, sys, time


def run(name, report, overwrite, words, kernels=""):
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
        file.write(f"{name} {status}{kernels}\\n")
    print(f"Generated: {report}", flush=True)
    sys.exit(0)


def refuse(option):
    print(f"unrecognised option '{option}'")
    sys.exit(1)


def nsys(words):
    command = words.pop(0)
    if command == "export":
        *options, report = words
        given = dict(word.removeprefix("--").split("=", 1) for word in options)
        if set(given) != {"type", "output", "force-overwrite"} or given["type"] != "sqlite":
            refuse("export")
        if not open(report).read().startswith("nsys "):
            print("Unable to read " + report)
            sys.exit(1)
        import sqlite3
        connection = sqlite3.connect(given["output"])
        connection.executescript(NSYS_EVENTS)
        connection.commit()
        return
    if command != "profile":
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
    if words[0] == "--import":
        if words[2:] != ["--csv", "--page", "raw", "--print-units", "base"]:
            refuse("import")
        import gzip
        sys.stdout.write(gzip.open(RAW_PAGE, "rt").read())
        return
    overwrite, export, kernels = False, None, ""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--force-overwrite":
            overwrite = True
        elif option == "--export":
            export = words.pop(0)
        elif option == "--kernel-name":
            kernels = " " + words.pop(0)
        elif option in ("--set", "--launch-skip", "--launch-count", "--replay-mode"):
            words.pop(0)
        elif option != "--target-processes" or words.pop(0) not in ("all", "application-only"):
            refuse(option)
    print(f"==PROF== Connected to process {os.getpid()}", flush=True)
    run("ncu", export + ".ncu-rep", overwrite, words, kernels)


PROGRAMS = {"nsys": nsys, "ncu": ncu}
"""
