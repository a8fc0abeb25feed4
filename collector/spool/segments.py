"""Records of the spool, and segment files.

A segment is a row of frames: a magic, the crc32 of all behind it, the payload's length, the batch, the payload.
A frame of batch 0 holds series' definitions, their refs in front and then JSON; any other a record's arrays, one behind the
other. Numbers are little-endian.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hypergauge.core.files.run_folder import sync_folder
from hypergauge.sql.ingest.targets import TargetRow

__all__ = [
    "DEFINITIONS",
    "FULL",
    "Frame",
    "KnownSeries",
    "Segment",
    "SeriesDefinition",
    "SpoolRecord",
    "frames",
]

_log = logging.getLogger(__name__)

DEFINITIONS = 0  # the batch that is none
FULL = (errno.ENOSPC, errno.EDQUOT)  # how a disk says that there is no room

_MAGIC = b"\x89bench2\n"
_HEAD = struct.Struct("<8sIIQ")
_CHECKED_FROM = 12  # behind magic and crc
_FIELDS = (("times", "<f8"), ("refs", "<u4"), ("values", "<f8"), ("dts", "<f4"))
_SAMPLE_BYTES = 24


@dataclass(frozen=True, slots=True)
class SeriesDefinition:
    """All that the database needs to open a series: its target, its name and labels, its kind as in `exposition`.

    Where the database could not be asked for the target's id, that is one of the collector's own, and `target` says which it
    is.
    """

    target_id: int
    metric: str
    kind: str
    labels: dict[str, str]
    target: TargetRow | None = None

    def row(self) -> list[Any]:
        """Return it as it is written to JSON."""
        row = [self.target_id, self.metric, self.kind, self.labels]
        return row if self.target is None else [*row, astuple(self.target)]

    @classmethod
    def of_row(cls, target_id: int, metric: str, kind: str, labels: dict[str, str], *target: Any) -> SeriesDefinition:
        """Return what `row` gave."""
        return cls(target_id, metric, kind, labels, TargetRow(*target[0]) if target else None)


@dataclass(frozen=True, slots=True, eq=False)
class SpoolRecord:
    """Samples that are written together, in arrays of one shape ``(n,)``, see `hypergauge.collector.convert.rates.Samples`.

    Attributes
    ----------
    refs
        Series by the collector's own numbers, which mean nothing beyond its lifetime.
    series
        Their definitions, and maybe others'.
    batch
        Its number, given by `Spool.append`.
    era
        Within one, a ref always means the same series; given by `Spool.take`.
    numbering
        The same for the collector, see `hypergauge.collector.convert.definitions`; for `Spool.append`.
    """

    times: npt.NDArray[np.float64]
    refs: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]
    dts: npt.NDArray[np.float32]
    series: Mapping[int, SeriesDefinition]
    batch: int = 0
    era: int = 0
    numbering: int = 0

    def __len__(self) -> int:
        return len(self.refs)

    def encode(self, batch: int) -> bytes:
        """Return the arrays as a frame."""
        arrays = (np.asarray(getattr(self, name), kind).tobytes() for name, kind in _FIELDS)
        return _encode(batch, b"".join(arrays))

    def encode_series(self, refs: Iterable[int]) -> bytes:
        """Return the definitions of `refs` as a frame."""
        found = {ref: one for ref in refs if (one := self.series.get(ref)) is not None}
        rows = [one.row() for one in found.values()]
        told = np.array([len(found), *found], "<u4").tobytes()
        return _encode(DEFINITIONS, told + json.dumps(rows).encode())

    @classmethod
    def joined(cls, records: Sequence[SpoolRecord]) -> SpoolRecord:
        """Return one record of several whose `series` and `numbering` are the same."""
        if len(records) == 1:
            return records[0]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in records]) for name, _ in _FIELDS}
        return replace(records[0], **arrays)

    def by_target(self) -> list[SpoolRecord]:
        """Return a record for what each target said, with the batch and the era of this one."""
        targets = np.array([self.series[ref].target_id for ref in self.refs.tolist()])
        parts = [np.flatnonzero(targets == target) for target in np.unique(targets)]
        return [replace(self, **{name: getattr(self, name)[part] for name, _ in _FIELDS}) for part in parts]

    @classmethod
    def decode(cls, frame: Frame, known: KnownSeries, era: int) -> SpoolRecord:
        """Return the record of which `frame` holds the arrays, less the samples whose series is not `known`."""
        count = len(frame.payload) // _SAMPLE_BYTES
        arrays: dict[str, Any] = {}
        offset = 0
        for name, kind in _FIELDS:
            arrays[name] = np.frombuffer(frame.payload, kind, count, offset)
            offset += arrays[name].nbytes
        defined = known.has(arrays["refs"])
        if not defined.all():
            arrays = {name: array[defined] for name, array in arrays.items()}
        return cls(**arrays, series=known, batch=frame.batch, era=era)


class KnownSeries(Mapping[int, SeriesDefinition]):
    """The definitions that were read from a segment so far, by ref.

    Only refs are decoded as they come, and a definition when it is asked for: each segment brings all series again, of
    which whoever reads it knows most.
    """

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._places = np.zeros(0, np.int32)  # by ref: which of the frames, counted from 1
        self._decoded: dict[int, SeriesDefinition] = {}

    def add(self, frame: Frame) -> None:
        """Take in what a frame of `DEFINITIONS` holds; nothing where it is the other copy."""
        refs = _defined(frame.payload)
        if self.has(refs).all():
            return
        if (size := int(refs.max()) + 1) > len(self._places):
            more = max(size - len(self._places), len(self._places))  # doubles, so that growing is linear in all
            self._places = np.concatenate([self._places, np.zeros(more, np.int32)])
        self._frames.append(frame.payload)
        self._places[refs] = len(self._frames)

    def has(self, refs: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return of each ref whether it is defined."""
        if not len(refs) or refs.max() < len(self._places):
            return self._places[refs] > 0
        return np.isin(refs, np.flatnonzero(self._places))

    def __getitem__(self, ref: int) -> SeriesDefinition:
        if ref not in self._decoded:
            if not 0 <= ref < len(self._places) or not self._places[ref]:
                raise KeyError(ref)
            payload = self._frames[self._places[ref] - 1]
            refs = _defined(payload)
            rows = json.loads(payload[refs.nbytes + 4 :])
            self._decoded |= {one: SeriesDefinition.of_row(*row) for one, row in zip(refs.tolist(), rows, strict=True)}
        return self._decoded[ref]

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._places).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._places))


def _defined(payload: bytes) -> npt.NDArray[np.uint32]:
    """Return the refs that a frame of `DEFINITIONS` is about."""
    return np.frombuffer(payload, "<u4", int.from_bytes(payload[:4], "little"), 4)


class Frame(NamedTuple):
    """A whole frame, and where it stands in its file."""

    offset: int
    length: int
    batch: int
    payload: bytes

    @property
    def samples(self) -> int:
        """Number of series."""
        return 0 if self.batch == DEFINITIONS else len(self.payload) // _SAMPLE_BYTES


@dataclass(slots=True, eq=False)
class Segment:
    """One file of frames.

    Attributes
    ----------
    size
        Bytes, of whole frames alone while it is written to.
    pending
        Records in it that are not accepted yet.
    definitions, definition_bytes
        Offsets and lengths of the frames of definitions, and how long they are together.
    era
        Of the refs in it.
    defined
        The refs in them; known while it is written to.
    """

    path: Path
    era: int
    size: int = 0
    pending: int = 0
    definitions: list[tuple[int, int]] = field(default_factory=list)
    definition_bytes: int = 0
    defined: set[int] = field(default_factory=set)
    _descriptor: int | None = None

    @classmethod
    def create(cls, path: Path, era: int) -> Segment:
        """Return a new one, to be written to."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            sync_folder(path.parent)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return cls(path, era, _descriptor=descriptor)

    @property
    def open(self) -> bool:
        """Return whether it is written to."""
        return self._descriptor is not None

    def put(self, data: bytes) -> None:
        """Write all of `data` at the end, or nothing.

        Raises
        ------
        OSError
            The disk does not take it; it is one of `FULL` where there is no room.
        """
        assert self._descriptor is not None
        written = 0
        try:
            written = os.write(self._descriptor, data)
        finally:
            if written < len(data):
                os.ftruncate(self._descriptor, self.size)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def sync(self) -> None:
        """Have it on the disk soon, in a thread: a slow disk must not hold up the scrapes."""
        if self._descriptor is not None:
            descriptor = os.dup(self._descriptor)
            threading.Thread(target=_sync_and_close, args=(descriptor, self.path), daemon=True).start()

    def finish(self) -> None:
        """Write to it no more, and have it on the disk soon."""
        if self._descriptor is not None:
            self.sync()
            os.close(self._descriptor)
            self._descriptor = None
            self.defined.clear()

    def read(self, offset: int, length: int) -> Frame | None:
        """Return the frame that stands there, ``None`` if it is not whole or the disk does not give it."""
        try:
            with self.path.open("rb", buffering=0) as file:
                return _frame_at(os.pread(file.fileno(), length, offset))
        except OSError:
            return None


def _sync_and_close(descriptor: int, path: Path) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        _log.error("%s may not survive a power cut: %s", path, error.strerror)
    finally:
        os.close(descriptor)


def _encode(batch: int, payload: bytes) -> bytes:
    checked = _HEAD.pack(_MAGIC, 0, len(payload), batch)[_CHECKED_FROM:] + payload
    return _MAGIC + zlib.crc32(checked).to_bytes(4, "little") + checked


def _frame_at(data: bytes, offset: int = 0) -> Frame | None:
    """Return the frame that begins at `offset`, ``None`` if none does or it is not whole."""
    if offset + _HEAD.size > len(data):
        return None
    magic, crc, length, batch = _HEAD.unpack_from(data, offset)
    begin, end = offset + _HEAD.size, offset + _HEAD.size + length
    if magic != _MAGIC or end > len(data) or zlib.crc32(memoryview(data)[offset + _CHECKED_FROM : end]) != crc:
        return None
    return Frame(offset, end - offset, batch, data[begin:end])


def frames(data: bytes) -> Iterator[Frame | None]:
    """Yield each frame, and ``None`` for each place at which one should begin and is not whole."""
    offset = 0
    while 0 <= offset < len(data):
        frame = _frame_at(data, offset)
        yield frame
        offset = data.find(_MAGIC, offset + 1) if frame is None else offset + frame.length
