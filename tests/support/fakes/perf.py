"""Stand-in of ``perf`` on a processor with hardware counters, which virtual machines lack.

It answers ``perf stat`` and ``perf list`` as the original does: events of a capture in ``tests/data/perf`` are counted, generic
events are not supported, and other names are errors of syntax. With an interval, each interval has the counts of the
capture.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["CAPTURES", "installed_perf"]

CAPTURES = Path(__file__).parents[2] / "data" / "perf"


def installed_perf(folder: Path, capture: str) -> Path:
    """Write the program to `folder`, which belongs in front of ``PATH``, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "perf"
    lines = (CAPTURES / capture).read_text().splitlines()
    path.write_text(f"#!{sys.executable} -SE\nLINES = {lines!r}\n{_PROGRAM}")
    path.chmod(0o755)
    return folder


_PROGRAM = '''
import re, subprocess, sys, time

COUNTS = {line.split(";")[2]: line for line in LINES}
GENERIC = """
instructions cycles LLC-loads LLC-load-misses branches branch-misses context-switches page-faults L1-dcache-loads
L1-dcache-load-misses dTLB-loads dTLB-load-misses iTLB-loads iTLB-load-misses stalled-cycles-frontend
stalled-cycles-backend minor-faults
""".split()


def counted(event):
    return COUNTS.get(event, f"<not supported>;;{event};0;100.00;;")


command, *words = sys.argv[1:]
if command == "list":
    print(*GENERIC, *COUNTS)
    sys.exit()
at = words.index("--")
options, words = words[:at], words[at + 1:]
given = dict(zip(options[::2], options[1::2]))
if command != "stat" or set(given) - {"-I", "-x", "-e", "-o"} or given["-x"] != ";":
    sys.exit("stand-in of perf: unexpected arguments")
groups = re.findall(r"\\{([^}]*)\\}|([^,]+)", given["-e"])
events = [event for group, single in groups for event in (group or single).split(",")]
if unknown := [event for event in events if event not in COUNTS and event not in GENERIC]:
    print(f"event syntax error: '{unknown[0]}'\\n{' ' * 21}\\\\___ parser error", file=sys.stderr)
    sys.exit(129)
running = subprocess.Popen(words)
if "-I" not in given:
    status = running.wait()
    print(*map(counted, events), sep="\\n", file=sys.stderr)
    sys.exit(status)
began = time.monotonic()
with open(given["-o"], "w") as file:
    while running.poll() is None:
        try:
            running.wait(int(given["-I"]) / 1000)
        except subprocess.TimeoutExpired:
            pass
        for event in events:
            print(f"{time.monotonic() - began:16.9f};{counted(event)}", file=file, flush=True)
'''
