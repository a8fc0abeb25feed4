"""Responses of a host's exporters over some runs: those of the recording, and those of simulated GPUs."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.support import telemetry
from benchmarks.support.recording import Exposition, RecordedRun, Recording, read

__all__ = ["LAYOUTS", "by_exporter", "laid_out"]

# Runs of the recording by their planned seconds, and repetitions.
LAYOUTS = {"60s": ((60,), 1), "10min": ((600,), 1), "day": ((60, 600), 4)}
# Recorded time of a host before and after its runs.
_AROUND = 5.0


def laid_out(layout: str) -> Recording:
    """Return the recording's runs of one of the `LAYOUTS`."""
    lengths, passes = LAYOUTS[layout]
    return _repeated(_of(read(), lengths), passes)


def by_exporter(taken: Recording) -> dict[str, list[tuple[float, bytes]]]:
    """Return the times and texts of the responses by exporter, with ``nvml`` and ``dcgm`` of simulated GPUs."""
    found: dict[str, list[tuple[float, bytes]]] = defaultdict(list)
    for one in taken.expositions:
        found[one.exporter].append((one.time, one.text))
    found["nvml"], found["dcgm"] = [], []
    for at, dcgm, nvml in _simulated(taken):
        found["dcgm"].append((at, dcgm))
        found["nvml"].append((at, nvml))
    return dict(found)


def _of(taken: Recording, lengths: tuple[int, ...]) -> Recording:
    """Return the part of a recording with runs of these lengths."""
    wanted = [run for run in taken.runs if run.seconds in lengths]
    began, ended = wanted[0].started_at - _AROUND, wanted[-1].ended_at + _AROUND
    return Recording(wanted, [one for one in taken.expositions if began <= one.time <= ended])


def _repeated(taken: Recording, passes: int) -> Recording:
    """Return a recording repeated `passes` times, each time with other runs."""
    length = int(taken.expositions[-1].time - taken.expositions[0].time) + 2
    runs, expositions = [], []
    for number in range(passes):
        shift = number * length
        ids = {run.run_id: run.run_id if not number else uuid.uuid4().hex for run in taken.runs}
        runs += [
            RecordedRun(ids[run.run_id], run.started_at + shift, run.ended_at + shift, run.seconds)
            for run in taken.runs
        ]
        expositions += [
            Exposition(one.exporter, one.time + shift, _moved(one.text, ids, shift)) if number else one
            for one in taken.expositions
        ]
    return Recording(runs, expositions)


def _moved(text: bytes, ids: dict[str, str], shift: int) -> bytes:
    """Return a response with other runs, `shift` seconds later."""
    text = re.sub(rb'(?<=run_id=")\w{32}', lambda found: ids.get(found[0].decode(), found[0].decode()).encode(), text)
    text = re.sub(rb" (\d{13})$", lambda found: b" %d" % (int(found[1]) + shift * 1000), text, flags=re.MULTILINE)
    return re.sub(
        rb"^(bench_process_start_time_seconds\S* )(\S+)",
        lambda found: found[1] + repr(float(found[2]) + shift).encode(),
        text,
        flags=re.MULTILINE,
    )


def _simulated(taken: Recording) -> Iterator[tuple[float, bytes, bytes]]:
    """Yield time and both responses for each second of the recording, each at its own phase of the second."""
    host = telemetry.Host()
    first = int(taken.expositions[0].time)
    for at in range(first, int(taken.expositions[-1].time)):
        host.tick(next((at - run.started_at for run in taken.runs if run.started_at <= at < run.ended_at), None))
        yield at + 0.414, host.dcgm(), host.nvml()
