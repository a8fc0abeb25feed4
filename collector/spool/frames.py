"""Frames of the spool's files.

A frame is a magic, the crc32 of the rest, the payload's length, the batch and the payload. The payload of batch 0 has
series definitions: the refs, then JSON. Any other payload has a record's arrays, one after the other. Numbers are
little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["DEFINITIONS", "SAMPLE_BYTES", "Frame", "encode", "frame_at", "frames"]

DEFINITIONS = 0  # no batch
SAMPLE_BYTES = 24

_MAGIC = b"\x89bench2\n"
_HEAD = struct.Struct("<8sIIQ")
_CHECKED_FROM = 12  # after magic and crc


class Frame(NamedTuple):
    """Complete frame, with its position in the file."""

    offset: int
    length: int
    batch: int
    payload: bytes

    @property
    def samples(self) -> int:
        """Number of samples."""
        return 0 if self.batch == DEFINITIONS else len(self.payload) // SAMPLE_BYTES


def encode(batch: int, payload: bytes) -> bytes:
    """Return a frame."""
    checked = _HEAD.pack(_MAGIC, 0, len(payload), batch)[_CHECKED_FROM:] + payload
    return _MAGIC + zlib.crc32(checked).to_bytes(4, "little") + checked


def frame_at(data: bytes, offset: int = 0) -> Frame | None:
    """Return the frame at `offset`, ``None`` if no complete frame is there."""
    if offset + _HEAD.size > len(data):
        return None
    magic, crc, length, batch = _HEAD.unpack_from(data, offset)
    begin, end = offset + _HEAD.size, offset + _HEAD.size + length
    if magic != _MAGIC or end > len(data) or zlib.crc32(memoryview(data)[offset + _CHECKED_FROM : end]) != crc:
        return None
    return Frame(offset, end - offset, batch, data[begin:end])


def frames(data: bytes) -> Iterator[Frame | None]:
    """Yield each frame, and ``None`` for each damaged one."""
    offset = 0
    while 0 <= offset < len(data):
        frame = frame_at(data, offset)
        yield frame
        offset = data.find(_MAGIC, offset + 1) if frame is None else offset + frame.length
