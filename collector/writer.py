"""From the spool to the database: series are opened, samples tagged, and both written with their batches' numbers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import psycopg

from bench.errors import BenchError
from collector.metrics import CollectorMetrics
from collector.segments import SeriesDefinition, SpoolRecord
from collector.spool import Spool
from collector.tags import Tags
from sql import runs, samples
from sql.aggregates import refresh
from sql.database import Connection, Database
from sql.samples import OpenedSeries

__all__ = ["Writer"]

Ids = npt.NDArray[np.int32]

_log = logging.getLogger(__name__)

_RECORDS_AT_ONCE = 200
_IDLE_SECONDS = 0.2
# What the data are at fault for, and not the database.
_REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
_HOUSEKEEPING_SECONDS = 1.0
# An aggregate's refresh policy stays a minute behind the clock; what is written further behind is refreshed here.
_LATE_SECONDS = 45.0
# When a run's last samples are in: its last scrape is over, and so is the writing.
_SETTLED_SECONDS = 2.0


class Writer(threading.Thread):
    """The one thread that writes samples.

    Parameters
    ----------
    spool, lock
        Where records come from, and what guards it: the scraper appends to it in another thread.

    Attributes
    ----------
    target_states
        By target id whether its last scrape worked, and when one last did (Unix seconds); filled by the scraper.
    """

    def __init__(self, database: Database, spool: Spool, lock: threading.Lock, metrics: CollectorMetrics) -> None:
        super().__init__(name="writer", daemon=True)
        self._database, self._spool, self._lock, self._metrics = database, spool, lock, metrics
        self._stopping = threading.Event()
        self._tags = Tags()
        self._series: dict[int, tuple[SeriesDefinition, OpenedSeries]] = {}
        self._housekept = float("-inf")
        self._at_once = _RECORDS_AT_ONCE
        self._alone: SpoolRecord | None = None
        self.target_states: dict[int, tuple[bool, float | None]] = {}

    def stop(self, timeout: float = 10.0) -> None:
        """Write what is left, for `timeout` seconds at most, and end; safe to call twice."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout)

    def run(self) -> None:
        """Write until stopped; whatever the database does meanwhile."""
        pause = _IDLE_SECONDS
        while True:
            try:
                with self._database.connect() as connection:
                    self._work(connection)
                    return
            except (BenchError, psycopg.Error) as error:
                self._metrics.write_errors.inc()
                # What the database refuses it will refuse again: then records go one by one, and the bad one is found.
                refused = isinstance(error, _REFUSALS)
                _log.warning("%s: %s", "records were refused" if refused else "the database failed", error)
                self._at_once = 1 if refused else _RECORDS_AT_ONCE
                self._tags = Tags()
                with self._lock:
                    if refused and self._alone is not None:
                        self._metrics.dropped.labels("refused").inc(len(self._alone))
                        self._spool.accept(self._alone.batch)
                    self._spool.give_back()
                self._alone = None
                pause = _IDLE_SECONDS if refused else min(2 * pause, 10.0)
                if not refused and self._stopping.wait(pause):
                    return  # the spool keeps what is left

    def _work(self, connection: Connection) -> None:
        while True:
            stopping = self._stopping.is_set()  # asked first, so that what came before the stop is written
            wrote = self._write(connection)
            if stopping and not wrote:
                self._keep_house(connection, settled=0)
                return
            if time.monotonic() - self._housekept >= _HOUSEKEEPING_SECONDS and not wrote:
                self._keep_house(connection)
            self._settle_tags(connection)
            if not wrote:
                self._stopping.wait(_IDLE_SECONDS)

    def _write(self, connection: Connection) -> bool:
        """Write the oldest records, in one transaction with their numbers; return whether there were any."""
        records: list[SpoolRecord] = []
        with self._lock:
            while len(records) < self._at_once and (record := self._spool.take()) is not None:
                records.append(record)
        if not records:
            return False
        self._alone = records[0] if len(records) == 1 else None
        began = time.monotonic()
        lowest, highest = np.inf, -np.inf
        count = 0
        with connection.transaction():
            claimed = samples.claim_batches(connection, self._spool.source, [record.batch for record in records])
            fresh = [record for record in records if record.batch in claimed and len(record)]
            self._metrics.replayed_batches.inc(len(records) - len(claimed))
            if fresh:
                times = np.concatenate([record.times for record in fresh])
                opened = [self._open(connection, record) for record in fresh]
                series_ids = np.concatenate([ids for ids, _ in opened])
                places = np.concatenate([places for _, places in opened])
                lowest, highest, count = float(times.min()), float(times.max()), len(times)
                self._refresh_tags(connection, lowest)
                samples.copy_samples(
                    connection, times, series_ids, self._tags.tag(places, times),
                    np.concatenate([record.values for record in fresh]),
                    np.concatenate([record.dts for record in fresh]),
                )  # fmt: skip
                if lowest < time.time() - _SETTLED_SECONDS:
                    samples.mark_unsummarised(connection, lowest)
        with self._lock:
            self._spool.accept(records[-1].batch)
        self._alone, self._at_once = None, min(2 * self._at_once, _RECORDS_AT_ONCE)
        self._metrics.samples.inc(count)
        self._metrics.write_seconds.observe(time.monotonic() - began)
        if lowest < time.time() - _LATE_SECONDS:
            refresh(connection, lowest, highest)
        return True

    def _open(self, connection: Connection, record: SpoolRecord) -> tuple[Ids, Ids]:
        """Return series ids and places of a record's samples; open the series that are new."""
        known = self._series
        new: dict[int, list[int]] = {}
        for ref, definition in record.series.items():
            # A ref means what its definition says: after a restart, replayed records bring refs of their own.
            if ref not in known or known[ref][0] != definition:
                new.setdefault(definition.target_id, []).append(ref)
        for target_id, refs in new.items():
            wanted = [(record.series[ref].metric, record.series[ref].labels) for ref in refs]
            for ref, opened in zip(refs, samples.open_series(connection, target_id, wanted), strict=True):
                known[ref] = record.series[ref], opened
        used, inverse = np.unique(record.refs, return_inverse=True)
        found = [known[ref][1] for ref in used.tolist()]
        ids = np.array([one.series_id for one in found], np.int32)
        places = np.array([one.place_id for one in found], np.int32)
        return ids[inverse], places[inverse]

    def _refresh_tags(self, connection: Connection, lowest: float) -> None:
        version = samples.tag_version(connection)
        if version != self._tags.version or lowest < self._tags.since:
            since = min(lowest, time.time()) - 60
            self._tags = Tags(samples.run_set_segments(connection, since), since, version)

    def _settle_tags(self, connection: Connection) -> None:
        for span in samples.retag(connection):
            self._metrics.retagged.inc(span.moved)
            refresh(connection, span.lowest, span.highest)

    def _keep_house(self, connection: Connection, settled: float = _SETTLED_SECONDS) -> None:
        self._housekept = time.monotonic()
        samples.report_targets(connection, self._states())
        with self._lock:
            depth, oldest = self._spool.depth, self._spool.oldest
        samples.forget_batches(connection, self._spool.source, oldest)
        if depth == 0:
            runs.end_lost_runs(connection)
            self._settle_tags(connection)
            samples.summarise_ended_runs(connection, settled)

    def _states(self) -> Mapping[int, tuple[bool, float | None]]:
        with contextlib.suppress(RuntimeError):  # changed by the scraper's thread while copied: the next time will do
            return dict(self.target_states)
        return {}
