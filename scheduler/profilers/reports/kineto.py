"""Trace of PyTorch's profiler (Kineto): operators, calls of CUDA, and kernels."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hypergauge.scheduler.profilers.reports.stacks import Event, Phases, Recording, UnreadableReport, recorded

__all__ = ["read_trace"]

# Kinds by Kineto's category. Its other categories are flows, and copies of ranges on the GPU's tracks.
_KINDS = {
    "cpu_op": "operator",
    "kernel": "kernel",
    "gpu_memcpy": "memory",
    "gpu_memset": "memory",
    "cuda_runtime": "cuda",
    "cuda_driver": "cuda",
    "user_annotation": "range",
    "python_function": "function",
}
_MICROSECOND = 1e-6


class _Event(msgspec.Struct, gc=False):
    """Event of the Trace Event Format; only those with a duration (``X``) have all of these fields."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0.0
    dur: float = 0.0


class _Trace(msgspec.Struct):
    """File; before PyTorch 2.2 times were Unix times, without a base."""

    traceEvents: list[_Event]  # noqa: N815 - the format's name
    baseTimeNanoseconds: int = 0  # noqa: N815


def read_trace(path: Path, phases: Phases) -> Recording:
    """Return the stacks of a trace, compressed or not.

    Raises
    ------
    UnreadableReport
        The trace is truncated, or no trace of Kineto's.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        trace = msgspec.json.decode(content, type=_Trace)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UnreadableReport("its compressed data ends early") from None
    except msgspec.MsgspecError as error:
        raise UnreadableReport(f"it is no complete trace of PyTorch: {error}") from None
    del content
    return recorded(_events(trace.traceEvents), phases, trace.baseTimeNanoseconds / 1e9)


def _events(events: list[_Event]) -> Iterator[Event]:
    for one in events:
        if one.ph == "X" and (kind := _KINDS.get(one.cat or "")) is not None:
            yield Event(kind, one.name, (one.pid, one.tid), one.ts * _MICROSECOND, one.dur * _MICROSECOND)
