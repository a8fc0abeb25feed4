"""Fake of ``dcgmi``: a program that replays captured output, and prints values like DCGM 4.6.

The folder in ``FAKE_DCGMI`` holds

- ``discovery-l.txt`` and ``discovery-c.txt``, its output;
- ``profiles.json``, MIG profiles by ``GPU-I 0``;
- ``values.json``, texts by entity and number of field, read again for each row, or instead
- ``dmon.txt``, lines that dmon prints at once for any request before it ends;
- ``engine-down`` without a host engine, and ``no-profiling`` without its profiling module;
- ``calls``, a log of its calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

# Short names and widths of ``dcgm_fields.cpp``; six are added to each width, and two between columns.
_FORMS = {
    1: ("DRVER", 7), 50: ("DVNAM", 20), 100: ("SMCLK", 5), 101: ("MMCLK", 5), 140: ("MMTMP", 10), 150: ("TMPTR", 5),
    155: ("POWER", 10), 156: ("TOTEC", 16), 202: ("RPCTR", 5), 203: ("GPUTL", 10), 204: ("MCUTL", 10), 206: ("ECUTL", 10),
    207: ("DCUTL", 10), 230: ("XIDER", 5), 251: ("FBFRE", 10), 252: ("FBUSD", 10), 253: ("FBRSV", 10), 393: ("URMPS", 10),
    394: ("CRMPS", 10), 395: ("RRF", 20), 449: ("NBWLT", 20), 526: ("VLCST", 5), 1001: ("GRACT", 5), 1002: ("SMACT", 5),
    1003: ("SMOCC", 5), 1004: ("TENSO", 5), 1005: ("DRAMA", 5), 1006: ("FP64A", 5), 1007: ("FP32A", 5), 1008: ("FP16A", 5),
    1009: ("PCITX", 20), 1010: ("PCIRX", 20),
}  # fmt: skip
_OPTIONS = {"discovery": {"-l": 0, "-c": 0}, "dmon": {"-i": 1, "-e": 1, "-d": 1, "-c": 1}}


def main() -> int:
    folder = Path(os.environ["FAKE_DCGMI"])
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    subsystem, *words = sys.argv[1:]
    if subsystem not in _OPTIONS:
        return fail("ERROR: Invalid subsystem.")
    options = {}
    while words:
        name = words.pop(0)
        if name not in _OPTIONS[subsystem] or name in options:
            return fail(f"PARSE ERROR: Argument: {name}\n             Couldn't find match for argument")
        options[name] = words.pop(0) if _OPTIONS[subsystem][name] else ""
    if (folder / "engine-down").exists():
        return fail("Error: unable to establish a connection to the specified host: localhost")
    if subsystem == "discovery":
        (word,) = options
        sys.stdout.write((folder / f"discovery{word}.txt").read_text())
        return 0
    return dmon(folder, options)


def dmon(folder: Path, options: dict[str, str]) -> int:
    if (folder / "dmon.txt").exists() and "-c" not in options:
        for line in (folder / "dmon.txt").read_text().splitlines():
            print(line, flush=True)
        time.sleep(float(os.environ.get("FAKE_DCGMI_STAYS", "0")))
        return 0
    entities = [
        f"GPU-I {word[2:]}" if word.startswith("i:") else f"GPU {int(word)}" for word in options["-i"].split(",")
    ]
    numbers = [int(word) for word in options["-e"].split(",")]
    widths = [_FORMS[number][1] + 6 for number in numbers]
    print(row("#Entity", [_FORMS[number][0] for number in numbers], widths))
    print(row("ID", [""] * len(numbers), widths), flush=True)
    if (folder / "no-profiling").exists() and any(number > 1000 for number in numbers):
        return fail(
            "Error setting watches. Result: -33: This request is serviced by a module of DCGM that is not loaded"
        )
    if numbers == [50]:
        profiles = json.loads((folder / "profiles.json").read_text())
        for entity in entities:
            print(row(entity, [profiles[entity]], widths))
        return 0
    while True:
        values = json.loads((folder / "values.json").read_text())
        for entity in entities:
            if entity in values:
                print(row(entity, [values[entity].get(str(number), "") for number in numbers], widths))
        sys.stdout.flush()
        if options.get("-c") == "1":
            return 0
        time.sleep(int(options["-d"]) / 1000 * float(os.environ.get("FAKE_DCGMI_SPEED", "1")))


def row(entity: str, texts: list[str], widths: list[int]) -> str:
    cells = [
        text if len(text) <= width else text[: width - 3] + "..." for text, width in zip(texts, widths, strict=True)
    ]
    return f"{entity:<16}" + "".join(f"{cell:<{width + 2}}" for cell, width in zip(cells, widths, strict=True))


def fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
