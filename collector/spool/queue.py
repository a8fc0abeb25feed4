"""Durable queue of scraped samples on disk.

A record is in the kernel when `Spool.append` returns, so it survives a ``kill -9``. A sync every 5 s bounds what a power
cut costs. The folder holds segments ``NNNN.spool``, named by their first batch and deleted when all their records are
accepted. The database keeps a ledger of written batches; after a failure the writer reads it (`Spool.settle`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from hypergauge.collector.spool.entries import Entries, Entry
from hypergauge.collector.spool.folder import SpoolFolder, SpoolUnwritable
from hypergauge.collector.spool.frames import DEFINITIONS, Frame, frames
from hypergauge.collector.spool.records import KnownSeries, SpoolRecord
from hypergauge.collector.spool.segments import FULL, Segment

__all__ = ["Spool"]

_SEGMENT_BYTES = 8 << 20  # some 350,000 samples: the most that the writer sends again after a crash
# Least ratio of a segment's size to that of its definitions. Each segment repeats all series, 300 bytes each. With
# 50,000 series, a collector would otherwise write little else.
_DEFINED = 4
# Series per frame: the encoding of 100,000 at once would block all other threads.
_DEFINED_AT_ONCE = 1000
_SYNC_SECONDS = 5.0


class Spool:
    """Queue of records on disk: appended at one end, taken and accepted at the other. Not thread-safe.

    New records are *live* for some seconds. The writer can take them before the backlog, so that users see current
    samples while a backlog drains.

    Parameters
    ----------
    directory
        Folder of the spool, made if it is missing. Only one process can open it.
    max_bytes
        Bound on all segments together; the oldest segment is dropped first.

    Attributes
    ----------
    source
        32 hex digits that identify this spool's batches.
    damaged
        Number of damaged frames.
    dropped_records, dropped_samples
        Records lost to the bound, a full disk, or two damaged copies of a definition. A record that the database may
        have is counted once `settle` knows that it is not there.
    newest
        The last record of an earlier process, ``None`` without one. It may have no successor, see `LastLines`.

    Raises
    ------
    SpoolInUse
        Another process has opened it.
    SpoolUnwritable
        Its folder cannot be used.
    """

    def __init__(self, directory: Path, max_bytes: int = 1 << 30) -> None:
        self.damaged = self.dropped_records = self.dropped_samples = 0
        self._directory = directory
        self._max_bytes = max_bytes
        self._segments: deque[Segment] = deque()
        self._entries = Entries()
        self._known: dict[Path, tuple[int, KnownSeries]] = {}
        self._numbering = 0
        self._synced = self._appended = time.monotonic()
        self.newest: SpoolRecord | None = None
        try:
            self._folder = SpoolFolder(directory)
            try:
                for path in sorted(directory.glob("[0-9]*.spool")):
                    self._recover(path)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise SpoolUnwritable(f"the spool {directory} cannot be used: {error.strerror}") from error
        self.source, self._era = self._folder.source, self._folder.next

    def append(self, record: SpoolRecord) -> int:
        """Append `record` and return its batch number, which is higher than any before.

        Raises
        ------
        SpoolUnwritable
            The record is larger than the bound, or the disk fails or is full without an older segment to drop. The
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
        """Return the oldest record not yet taken, or the oldest live one; ``None`` if there is none.

        Its arrays are read-only.
        """
        while (entry := self._entries.pop(live=live)) is not None:
            frame = entry.segment.read(entry.offset, entry.length)
            if frame is None:
                self.damaged += 1
                self._release(entry)
                continue
            self._entries.take(entry)
            record = SpoolRecord.decode(frame, self._definitions(entry.segment), entry.segment.era)
            self.dropped_samples += entry.samples - len(record)
            return record
        return None

    def accept(self, batches: Iterable[int]) -> None:
        """Remove the taken records that are in the database."""
        for batch in batches:
            if (entry := self._entries.accept(batch)) is not None:
                self._release(entry)

    def give_back(self) -> None:
        """Queue the records that were taken and not accepted again."""
        self._entries.give_back()

    @property
    def states(self) -> Path:
        """Folder for the states of targets, beside the records."""
        return self._directory / "targets"

    @property
    def waiting(self) -> bool:
        """Return whether there are records that are not yet taken."""
        return self._entries.waiting

    @property
    def unsure(self) -> int | None:
        """Lowest batch that may be in the database without being accepted; ``None`` if there is none."""
        return self._entries.unsure

    def settle(self, written: Collection[int]) -> int:
        """Accept the batches `written` among those from `unsure` on; count dropped ones; return the accepted number."""
        there, accepted, lost = self._entries.settle(written)
        self._count_dropped(lost)
        for entry in accepted:
            self._release(entry)
        return there

    @property
    def oldest(self) -> int:
        """Lowest batch that the writer may still send."""
        return int(self._segments[0].path.stem) if self._segments else self._folder.next

    @property
    def depth(self) -> int:
        """Number of records not yet accepted."""
        return len(self._entries)

    @property
    def lag(self) -> float:
        """Seconds since the oldest of these was appended, 0 without any; infinite for one from before a restart."""
        return self._entries.lag

    @property
    def silence(self) -> float:
        """Seconds since the last append, or since the start."""
        return time.monotonic() - self._appended

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def sync(self) -> None:
        """Sync to disk, in a thread; `append` calls it every 5 s."""
        self._synced = time.monotonic()
        if (active := self._active) is not None:
            active.sync()

    def close(self) -> None:
        """Close the folder, without a segment if all records are accepted; safe to call twice."""
        self._finish()
        self._folder.close()

    @property
    def _active(self) -> Segment | None:
        return self._segments[-1] if self._segments and self._segments[-1].open else None

    def _attempt(self, record: SpoolRecord) -> int | None:
        """Write `record` and return its number; ``None`` if the disk is full."""
        try:
            batch = self._folder.number()
            self._write(batch, record)
        except OSError as error:
            if error.errno not in FULL:
                raise
            return None
        return batch

    def _make_room(self) -> None:
        """Drop a segment whose records are all accepted, else the oldest."""
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
        # Twice, since all samples of these series in the segment depend on the definitions.
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
        self._entries.append(Entry(batch, active, active.size - len(frame), len(frame), len(record), time.monotonic()))

    def _full(self, segment: Segment) -> int:
        """Return the size of a full segment: at most a quarter of the bound, which limits the loss of a drop."""
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

    def _release(self, entry: Entry) -> None:
        entry.segment.pending -= 1
        if entry.segment.pending == 0 and not entry.segment.open:
            self._delete(entry.segment)

    def _delete(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._known.pop(segment.path, None)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(segment.path, 0)  # frees the disk now, not when a thread has synced the file
            segment.path.unlink()

    def _drop_oldest(self) -> None:
        """Drop the oldest segment; fail if only the open one is left."""
        if not self._segments or (oldest := self._segments[0]) is self._active:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._count_dropped(self._entries.give_up(oldest))
        self._delete(oldest)

    def _count_dropped(self, entries: Sequence[Entry]) -> None:
        self.dropped_records += len(entries)
        self.dropped_samples += sum(entry.samples for entry in entries)

    def _recover(self, path: Path) -> None:
        data = path.read_bytes()
        segment = Segment(path, int(path.stem), len(data))
        last: Frame | None = None
        for frame in frames(data):
            if frame is None:
                self.damaged += 1
            elif frame.batch == DEFINITIONS:
                segment.definitions.append((frame.offset, frame.length))
            else:
                segment.pending += 1
                last = frame
                self._entries.recover(Entry(frame.batch, segment, frame.offset, frame.length, frame.samples))
                self._folder.skip(frame.batch)
        self._segments.append(segment)
        if last is not None:
            self.newest = SpoolRecord.decode(last, self._definitions(segment), segment.era)
        if segment.pending == 0:
            self._delete(segment)

    def _definitions(self, segment: Segment) -> KnownSeries:
        """Return the definitions of `segment`, reading only new ones."""
        count, known = self._known.get(segment.path, (0, KnownSeries()))
        for offset, length in segment.definitions[count:]:
            if frame := segment.read(offset, length):
                known.add(frame)
        self._known[segment.path] = (len(segment.definitions), known)
        return known
