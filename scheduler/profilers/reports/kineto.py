"""Trace of PyTorch's profiler (Kineto): operators, calls of CUDA, and kernels."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport, recorded

__all__ = ["read_calls", "read_trace"]

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
_OF_GPUS = ("kernel", "memory")
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
    trace = _decoded(path)
    return recorded(_calls(trace), phases, trace.baseTimeNanoseconds / 1e9)


def read_calls(path: Path) -> list[Call]:
    """Return the calls of a trace with their Unix times; raise as `read_trace` does."""
    trace = _decoded(path)
    return [replace(one, start=one.start + trace.baseTimeNanoseconds / 1e9) for one in _calls(trace)]


def _decoded(path: Path) -> _Trace:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return msgspec.json.decode(content, type=_Trace)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UnreadableReport("its compressed data ends early") from None
    except msgspec.MsgspecError as error:
        raise UnreadableReport(f"it is no complete trace of PyTorch: {error}") from None


def _calls(trace: _Trace) -> Iterator[Call]:
    for one in trace.traceEvents:
        if one.ph == "X" and (kind := _KINDS.get(one.cat or "")) is not None:
            track = ("GPU", one.pid, "stream", one.tid) if kind in _OF_GPUS else ("process", one.pid, "thread", one.tid)
            yield Call(kind, one.name, " ".join(map(str, track)), one.ts * _MICROSECOND, one.dur * _MICROSECOND)
