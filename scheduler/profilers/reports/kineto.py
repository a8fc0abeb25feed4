"""Trace of PyTorch's profiler (Kineto): operators, calls of CUDA, and kernels."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport, recorded, timed
from hypergauge.sql.ingest.limits import is_time

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
_SURROGATES = tuple(f"d{digit}".encode() for digit in "89abcdef")
_OF_GPUS = ("kernel", "memory")
_MICROSECOND = 1e-6
# Of a trace after decompression: hours of a training. Its events take several times as much memory.
_MOST_BYTES = 4 << 30
# What JSON lacks, but traces have: bytes of names as they are, and numbers that are none. Two escapes are a character beyond
# the first 65,536; a part of them alone is none.
_ESCAPE = re.compile(
    rb'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\["\\/bfnrt]'
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\"
)
_CONTROLS = bytes.maketrans(bytes(range(32)), b" " * 32)
_NO_NUMBER = re.compile(rb"(?<=[:,\[])( *)[+-]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


class _Event(msgspec.Struct, gc=False):
    """Event of the Trace Event Format; only those with a duration (``X``) have all of these fields."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float | None = None
    dur: float | None = None


class _Trace(msgspec.Struct):
    """File; before PyTorch 2.2 times were Unix times, without a base."""

    traceEvents: list[_Event]  # noqa: N815 - the format's name
    baseTimeNanoseconds: float | None = 0  # noqa: N815


class _DamagedTrace(msgspec.Struct):
    """File whose events are read one by one."""

    traceEvents: list[msgspec.Raw]  # noqa: N815
    baseTimeNanoseconds: msgspec.Raw = msgspec.Raw(b"0")  # noqa: N815


def read_trace(path: Path, phases: Phases) -> Recording:
    """Return the stacks of a trace, compressed or not.

    Raises
    ------
    UnreadableReport
        The trace is truncated, or no trace of Kineto's.
    """
    trace = _decoded(path)
    return recorded(_calls(trace), phases, _offset(trace))


def read_calls(path: Path) -> list[Call]:
    """Return the calls of a trace with their Unix times; raise as `read_trace` does."""
    trace = _decoded(path)
    if (offset := _offset(trace)) is None:
        return []
    return [replace(one, start=one.start + offset) for one in timed(_calls(trace), offset) if one is not None]


def _decoded(path: Path) -> _Trace:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UnreadableReport("its compressed data ends early") from None
    if len(content) > _MOST_BYTES:
        raise UnreadableReport(f"it has more than {_MOST_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(content, type=_Trace)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        damaged = msgspec.json.decode(_repaired(content), type=_DamagedTrace)
    except msgspec.MsgspecError as error:
        raise UnreadableReport(f"it is no complete trace of PyTorch: {error}") from None
    except RecursionError:
        raise UnreadableReport("it is no complete trace of PyTorch: nested too deeply") from None
    base = _value(damaged.baseTimeNanoseconds)
    return _Trace(list(map(_event, damaged.traceEvents)), _number(base))


def _repaired(content: bytes) -> bytes:
    """Return a trace as valid JSON: invalid characters of names are replaced, and numbers that are none are null."""

    def escape(match: re.Match[bytes]) -> bytes:
        found = match.group()
        if found == b"\\":
            return rb"\\"
        return rb"\ufffd" if len(found) == 6 and found[2:4].lower() in _SURROGATES else found

    text = content.decode(errors="replace").encode().translate(_CONTROLS)
    return _NO_NUMBER.sub(rb"\1null", _ESCAPE.sub(escape, text))


def _event(raw: msgspec.Raw) -> _Event:
    """Return an event; one whose fields have other types keeps what is valid."""
    try:
        return msgspec.json.decode(raw, type=_Event)
    except (msgspec.MsgspecError, RecursionError):
        fields = _value(raw)
    if not isinstance(fields, dict):
        return _Event()
    text = {name: str(fields.get(name, "")) for name in ("ph", "cat", "name", "pid", "tid")}
    return _Event(**text, ts=_number(fields.get("ts")), dur=_number(fields.get("dur")))


def _value(raw: msgspec.Raw) -> object:
    try:
        return json.loads(bytes(raw), parse_int=lambda text: int(text) if len(text) < 300 else float(text))
    except (ValueError, RecursionError):
        return None


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _offset(trace: _Trace) -> float | None:
    """Return the Unix time at 0 of a trace's clock; ``None`` if its base is damaged."""
    base = trace.baseTimeNanoseconds
    return base / 1e9 if base is not None and is_time(base / 1e9) else None


def _calls(trace: _Trace) -> Iterator[Call | None]:
    for one in trace.traceEvents:
        if one.ph == "X" and (kind := _KINDS.get(one.cat or "")) is not None:
            if one.ts is None or one.dur is None:
                yield None
                continue
            track = ("GPU", one.pid, "stream", one.tid) if kind in _OF_GPUS else ("process", one.pid, "thread", one.tid)
            yield Call(kind, one.name, " ".join(map(str, track)), one.ts * _MICROSECOND, one.dur * _MICROSECOND)
