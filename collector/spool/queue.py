"""Durable queue of scraped samples on disk.

A record is in the kernel when `Spool.append` returns, so it survives a ``kill -9``; every 5 s it is on the disk, which is
what a power cut may cost. The folder holds segments ``NNNN.spool``, named by their first batch and deleted when all in
them is accepted. Where the database stands is not kept here: whoever writes asks its ledger of batches (`Spool.settle`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import re
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hypergauge.collector.spool.segments import (
    DEFINITIONS,
    FULL,
    KnownSeries,
    Segment,
    SeriesDefinition,
    SpoolRecord,
    frames,
)
from hypergauge.core.errors import BenchError
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["SeriesDefinition", "Spool", "SpoolInUse", "SpoolRecord", "SpoolUnwritable"]

_SEGMENT_BYTES = 8 << 20  # some 350,000 samples: what a crash makes the writer send again at most
# Of a segment that definitions may take, 1 / _DEFINED, where they are so many that it has to be larger for that: each
# segment holds all series anew, 300 bytes each, and a collector of 50,000 would else write little more than these.
_DEFINED = 4
# Series of one frame: a hundred thousand as one text of JSON would keep all other threads waiting while it is written or read.
_DEFINED_AT_ONCE = 1000
_SYNC_SECONDS = 5.0
_LIVE_SECONDS = 10.0
_RESERVED = 1000  # batch numbers taken at a time, so that their file is written every 1000th append


class SpoolInUse(BenchError):
    """Another collector works on this spool."""


class SpoolUnwritable(BenchError):
    """The spool cannot be written."""


class _Entry(NamedTuple):
    batch: int
    segment: Segment
    offset: int
    length: int
    samples: int
    appended: float = -math.inf  # by the monotonic clock; what was recovered is old


class Spool:
    """A queue of records on disk: appended at one end, taken and accepted at the other. Not for several threads.

    What was appended just now is *live*. It can be taken before what has piled up, so that the newest samples are not the
    last to be seen while a backlog drains.

    Parameters
    ----------
    directory
        Its folder, made if it is not there. Only one process can have it open.
    max_bytes
        Bound on all segments together; beyond it the oldest goes first.

    Attributes
    ----------
    source
        32 hex digits that tell this spool's batches from another's.
    damaged
        Places found in which a whole record was expected and none was.
    dropped_records, dropped_samples
        What went without being accepted, for the bound, a full disk, or a definition of which both copies are damaged.
        What may be in the database all the same counts once `settle` was told that it is not.

    Raises
    ------
    SpoolInUse
        It is open already.
    SpoolUnwritable
        Its folder cannot be used.
    """

    def __init__(self, directory: Path, max_bytes: int = 1 << 30) -> None:
        self.damaged = self.dropped_records = self.dropped_samples = 0
        self._directory = directory
        self._max_bytes = max_bytes
        self._segments: deque[Segment] = deque()
        self._backlog: deque[_Entry] = deque()  # older than all of the next
        self._live: deque[_Entry] = deque()
        self._taken: dict[int, _Entry] = {}
        self._unsure: set[int] = (
            set()
        )  # batches that may be in the database: of an earlier life, or of a write that failed
        self._gone: dict[int, _Entry] = {}  # what was given up of these, and of those that are being written
        self._known: dict[Path, tuple[int, KnownSeries]] = {}
        self._numbering = 0
        self._synced = self._appended = time.monotonic()
        self._lock: int | None = None
        try:
            private.make_folder(directory)
            self._lock = _lock(directory / "lock")
            self.source = self._recall("source", r"[0-9a-f]{32}") or self._remember("source", uuid.uuid4().hex)
            self._next = self._reserved = int(self._recall("next", r"[0-9]+") or 1)
            for path in sorted(directory.glob("[0-9]*.spool")):
                self._recover(path)
            self._unsure = {entry.batch for entry in self._backlog}
            self._era = self._next
        except (OSError, BenchError) as error:
            self.close()
            if isinstance(error, OSError):
                raise SpoolUnwritable(f"the spool {directory} cannot be used: {error.strerror}") from error
            raise

    def append(self, record: SpoolRecord) -> int:
        """Write `record` behind the others and return its batch number, which is higher than any before.

        Raises
        ------
        SpoolUnwritable
            The record is larger than the bound, or the disk fails or is full with nothing older left to give up. The
            record is counted as dropped.
        """
        try:
            if time.monotonic() - self._synced >= _SYNC_SECONDS:
                self.sync()
            while (batch := self._attempt(record)) is None:
                self._make_room()
            self._appended = time.monotonic()
        except OSError as error:
            self.dropped_records += 1
            self.dropped_samples += len(record)
            raise SpoolUnwritable(f"the spool {self._directory} cannot be written: {error.strerror}") from error
        return batch

    def take(self, *, live: bool = False) -> SpoolRecord | None:
        """Return the oldest record not yet taken, or the oldest that is live; ``None`` if there is none.

        Its arrays are read-only.
        """
        while (entry := self._pop(live=live)) is not None:
            frame = entry.segment.read(entry.offset, entry.length)
            if frame is None:
                self.damaged += 1
                self._release(entry)
                continue
            self._taken[entry.batch] = entry
            record = SpoolRecord.decode(frame, self._definitions(entry.segment), entry.segment.era)
            self.dropped_samples += entry.samples - len(record)
            return record
        return None

    def _pop(self, *, live: bool) -> _Entry | None:
        horizon = time.monotonic() - _LIVE_SECONDS
        while self._live and self._live[0].appended < horizon:
            self._backlog.append(self._live.popleft())
        queue = self._backlog if self._backlog and not live else self._live
        return queue.popleft() if queue else None

    def accept(self, batches: Iterable[int]) -> None:
        """Let go of those records, as far as they are taken: they are in the database."""
        for batch in batches:
            self._gone.pop(batch, None)
            if (entry := self._taken.pop(batch, None)) is not None:
                self._release(entry)

    def give_back(self) -> None:
        """Have the records that were taken and not accepted taken again."""
        self._unsure |= self._taken.keys() | self._gone.keys()
        self._backlog = deque(sorted([*self._taken.values(), *self._backlog], key=lambda entry: entry.batch))
        self._taken.clear()

    @property
    def unsure(self) -> int | None:
        """The lowest batch that may be in the database without having been accepted; ``None`` if there is none."""
        return min(self._unsure, default=None)

    def settle(self, written: Collection[int]) -> int:
        """Let go of what the database has, of all batches from `unsure` on, and count what it has not and is gone.

        Returns how many batches it has.
        """
        gone = [entry for batch, entry in self._gone.items() if batch in self._unsure and batch not in written]
        self._count_dropped(gone)
        self._gone = {batch: entry for batch, entry in self._gone.items() if batch not in self._unsure}
        there = self._unsure.intersection(written)
        for entry in self._backlog:
            if entry.batch in there:
                self._release(entry)
        self._backlog = deque(entry for entry in self._backlog if entry.batch not in there)
        self._unsure.clear()
        return len(there)

    @property
    def oldest(self) -> int:
        """The lowest batch number that a replay could bring again."""
        return int(self._segments[0].path.stem) if self._segments else self._next

    @property
    def depth(self) -> int:
        """Records not yet accepted."""
        return len(self._backlog) + len(self._live) + len(self._taken)

    @property
    def lag(self) -> float:
        """Seconds since the oldest of them was appended, 0 where there is none; endless for one of an earlier life."""
        now = time.monotonic()
        first = [queue[0].appended for queue in (self._backlog, self._live) if queue]
        return now - min([now, *first, *(entry.appended for entry in self._taken.values())])

    @property
    def silence(self) -> float:
        """Seconds since anything was appended, or since it was opened."""
        return time.monotonic() - self._appended

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    def sync(self) -> None:
        """Have all of it on the disk soon; `append` asks for it every 5 s."""
        self._synced = time.monotonic()
        if (active := self._active) is not None:
            active.sync()

    def close(self) -> None:
        """Let go of the folder. Where nothing is left to accept, nothing is left to replay."""
        if self._lock is not None:
            self._finish()
            os.close(self._lock)
            self._lock = None

    @property
    def _active(self) -> Segment | None:
        return self._segments[-1] if self._segments and self._segments[-1].open else None

    def _attempt(self, record: SpoolRecord) -> int | None:
        """Write `record` and return its number; ``None`` where the disk has no room for it, or for the number."""
        try:
            batch = self._number()
            self._write(batch, record)
        except OSError as error:
            if error.errno not in FULL:
                raise
            return None
        return batch

    def _make_room(self) -> None:
        """Give up what the disk needs least: a segment of which all is accepted, else the oldest."""
        if (active := self._active) is not None and active.size and not active.pending:
            self._finish()
        else:
            self._drop_oldest()

    def _write(self, batch: int, record: SpoolRecord) -> None:
        active = self._active
        if record.numbering != self._numbering:
            self._numbering, self._era, active = record.numbering, batch, None
        if active is None or active.size >= self._full(active):
            active = self._start(batch)
        missing = list(set(np.unique(record.refs).tolist()) - active.defined)
        frame = record.encode(batch)
        # Twice, since all samples of these series in this segment depend on them.
        parts = [missing[at : at + _DEFINED_AT_ONCE] for at in range(0, len(missing), _DEFINED_AT_ONCE)]
        definitions = [record.encode_series(part) for part in parts] * 2
        data = b"".join([*definitions, frame])
        if active.size + len(data) > self._max_bytes:
            raise OSError(errno.EFBIG, f"a record of {len(data)} bytes is too large for it")
        while self.size + len(data) > self._max_bytes:
            self._drop_oldest()
        active.put(data)
        offset = active.size - len(data)
        for one in definitions:
            active.definitions.append((offset, len(one)))
            offset += len(one)
        active.definition_bytes += sum(map(len, definitions))
        active.defined.update(missing)
        active.pending += 1
        self._live.append(_Entry(batch, active, active.size - len(frame), len(frame), len(record), time.monotonic()))

    def _full(self, segment: Segment) -> int:
        """Return the bytes with which it is full: a quarter at most, so that giving up the oldest gives up no more."""
        return min(max(_SEGMENT_BYTES, _DEFINED * segment.definition_bytes), self._max_bytes // 4)

    def _start(self, batch: int) -> Segment:
        self._finish()
        self._segments.append(Segment.create(self._directory / f"{batch:020}.spool", self._era))
        return self._segments[-1]

    def _finish(self) -> None:
        if (active := self._active) is not None:
            active.finish()
            if active.pending == 0:
                self._delete(active)

    def _release(self, entry: _Entry) -> None:
        entry.segment.pending -= 1
        if entry.segment.pending == 0 and not entry.segment.open:
            self._delete(entry.segment)

    def _delete(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._known.pop(segment.path, None)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(segment.path, 0)  # the disk has the room now, and not when a thread has synced the file
            segment.path.unlink()

    def _drop_oldest(self) -> None:
        """Give up the oldest segment, or fail where there is none but the one that is written to."""
        if not self._segments or (oldest := self._segments[0]) is self._active:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        lost = [entry for entry in (*self._taken.values(), *self._backlog, *self._live) if entry.segment is oldest]
        known = self._taken.keys() | self._unsure
        self._gone |= {entry.batch: entry for entry in lost if entry.batch in known}
        self._count_dropped([entry for entry in lost if entry.batch not in known])
        self._taken = {batch: entry for batch, entry in self._taken.items() if entry.segment is not oldest}
        self._backlog = deque(entry for entry in self._backlog if entry.segment is not oldest)
        self._live = deque(entry for entry in self._live if entry.segment is not oldest)
        self._delete(oldest)

    def _count_dropped(self, entries: Sequence[_Entry]) -> None:
        self.dropped_records += len(entries)
        self.dropped_samples += sum(entry.samples for entry in entries)

    def _recover(self, path: Path) -> None:
        data = path.read_bytes()
        segment = Segment(path, int(path.stem), len(data))
        for frame in frames(data):
            if frame is None:
                self.damaged += 1
            elif frame.batch == DEFINITIONS:
                segment.definitions.append((frame.offset, frame.length))
            else:
                segment.pending += 1
                self._backlog.append(_Entry(frame.batch, segment, frame.offset, frame.length, frame.samples))
                self._next = self._reserved = max(self._next, frame.batch + 1)
        self._segments.append(segment)
        if segment.pending == 0:
            self._delete(segment)

    def _definitions(self, segment: Segment) -> KnownSeries:
        """Return what is defined in `segment`, reading only what came since it was last asked for."""
        count, known = self._known.get(segment.path, (0, KnownSeries()))
        for offset, length in segment.definitions[count:]:
            if frame := segment.read(offset, length):
                known.add(frame)
        self._known[segment.path] = (len(segment.definitions), known)
        return known

    def _number(self) -> int:
        """Return the next batch number. No number is used before the disk knows that it may have been."""
        if self._next >= self._reserved:
            self._reserved = int(self._remember("next", str(self._next + _RESERVED)))
        self._next += 1
        return self._next - 1

    def _recall(self, name: str, form: str) -> str | None:
        path = self._directory / name
        if not path.exists():
            return None
        content = path.read_text(encoding="ascii", errors="replace").strip()
        if not re.fullmatch(form, content):
            raise SpoolUnwritable(
                f"{path} is damaged: it holds {content[:40]!r}. Move the folder away to start a new one"
            )
        return content

    def _remember(self, name: str, content: str) -> str:
        write_atomically(self._directory / name, content)
        return content


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise SpoolInUse(f"another collector (process {owner}) works on the spool {path.parent}") from None
    with contextlib.suppress(OSError):  # for people alone, and no reason to leave a full disk undrained
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
