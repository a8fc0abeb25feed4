"""Writer of records from the spool to the database. Samples and batch numbers share a transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import psycopg

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.collector.write.resolution import rounded
from hypergauge.collector.write.series import ELSEWHERE, Found, Ids, SeriesIds
from hypergauge.collector.write.tags import Tags
from hypergauge.core.errors import BenchError
from hypergauge.core.system.backoff import Backoff
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.samples import WriteState
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection, Database

__all__ = ["Writer"]

_log = logging.getLogger(__name__)

# Samples per transaction: some 0.6 s of work, so that live samples are readable within 2 s while a backlog drains.
_SAMPLES_AT_ONCE = 250_000
# Share of live samples in it; the backlog gets the rest.
_LIVE_SHARE = 0.8
# Least seconds from one write to the next without a backlog: a transaction costs as much as some hundred samples.
_APART_SECONDS = 0.5
# Wait for further records of the same moment, such as of a slow exporter on the host.
_LINGER_SECONDS = 0.1
# Errors of the data, not of the database.
_REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
_MAINTENANCE_SECONDS = 1.0
# Delay after which a run's last samples are stored: its last scrape is over, and so is the write.
_SETTLED_SECONDS = 2.0
# If nothing older than this waits in the parse queue or in the spool, all scraped samples are written.
_WRITTEN_SECONDS = 1.5
# After a silence this long, the collector may have been suspended, and the last reports of runs may still come. A silence
# beyond the longest scrape interval has another cause.
_ASLEEP_SECONDS, _GIVEN_UP_SECONDS = 3.0, 90.0


class Writer(threading.Thread):
    """Thread that writes samples; the only one.

    Parameters
    ----------
    spool, access
        The spool, and the access to it: the scraper appends to it in another thread, and notifies the writer.
    """

    def __init__(
        self, database: Database, spool: Spool, access: threading.Condition, metrics: CollectorMetrics
    ) -> None:
        super().__init__(name="writer", daemon=True)
        self._database, self._spool, self._access, self._metrics = database, spool, access, metrics
        self._stopping = threading.Event()
        self._tags = Tags()
        self._series = SeriesIds(spool.source)
        self._backoff = Backoff(0.2, 10.0)
        self._maintained_at = self._wrote_at = float("-inf")
        self._forgotten = 0
        self._at_once = _SAMPLES_AT_ONCE

    def stop(self, timeout: float = 10.0) -> None:
        """Write the remaining records, for `timeout` seconds at most, and end; safe to call twice."""
        self._stopping.set()
        with self._access:
            self._access.notify()
        if self.is_alive():
            self.join(timeout)

    def run(self) -> None:
        """Write until stopped; retry after database failures."""
        while True:
            try:
                with self._database.connect() as connection:
                    self._settle(connection)
                    self._work(connection)
                    return
            except (BenchError, psycopg.Error) as error:
                self._metrics.write_errors.inc()
                _log.warning("the database failed: %s", error)
                self._at_once = _SAMPLES_AT_ONCE
                self._tags, self._series = Tags(), SeriesIds(self._spool.source)
                self._give_back()
                if self._stopping.wait(self._backoff.failed()):
                    return  # the spool keeps the remaining records

    def _settle(self, connection: Connection) -> None:
        """Settle unsure batches by the ledger: an earlier process or a failed write may have written them."""
        with self._access:
            unsure = self._spool.unsure
        if unsure is not None:
            written = samples.written_batches(connection, self._spool.source, unsure)
            with self._access:
                there = self._spool.settle(written)
            self._metrics.replayed_batches.inc(there)

    def _work(self, connection: Connection) -> None:
        while True:
            stopping = self._stopping.is_set()  # read first, so that records from before the stop are written
            wrote = self._write(connection)
            if stopping and not wrote:
                self._maintain(connection, settled=0)
                return
            if time.monotonic() - self._maintained_at >= _MAINTENANCE_SECONDS:
                self._maintain(connection)
            if not wrote:
                self._await_records()

    def _await_records(self) -> None:
        """Wait for records, or until the next maintenance is due."""
        self._stopping.wait(max(self._wrote_at + _APART_SECONDS - time.monotonic(), 0))
        with self._access:
            there = self._access.wait_for(lambda: self._spool.waiting or self._stopping.is_set(), _MAINTENANCE_SECONDS)
        if there:
            self._stopping.wait(_LINGER_SECONDS)

    def _take(self) -> list[SpoolRecord]:
        """Return the records of one transaction: the live ones, and as much of the backlog as fits."""
        records: list[SpoolRecord] = []
        count = 0
        limits = ((True, _LIVE_SHARE * self._at_once), (False, self._at_once))
        # After a refusal, only the oldest record, so that the refused one is also written alone.
        for live, limit in limits if self._at_once else ((False, 1),):
            while count < limit:
                with self._access:  # per record: a scrape waits no longer
                    record = self._spool.take(live=live)
                if record is None:
                    break
                records.append(record)
                count += max(len(record), 1)
        return records

    def _write(self, connection: Connection) -> bool:
        """Write records in one transaction with their numbers; return whether there were any."""
        records = self._take()
        if not records:
            return False
        began = time.monotonic()
        try:
            # After a refusal, the acceptable part of the one record.
            taken = records if self._at_once else self._acceptable(connection, records[0])
            # Before the transaction: a scheduler that creates the same resource would have to wait for it.
            self._series.of(connection, taken)
            with connection.transaction():
                count = self._enter(connection, taken)
        except _REFUSALS as error:
            self._refused(connection, records, error)
            return True
        with self._access:
            self._spool.accept([record.batch for record in records])
        self._backoff.worked()
        self._at_once = min(max(2 * self._at_once, 1000), _SAMPLES_AT_ONCE)
        self._metrics.samples.inc(count)
        self._wrote_at = began
        self._metrics.write_seconds.observe(time.monotonic() - began)
        return True

    def _refused(self, connection: Connection, records: list[SpoolRecord], error: psycopg.Error) -> None:
        """Retry records one by one, which isolates the refused one.

        A record that is refused alone, and without the targets that the database refuses, would be refused again. It is
        dropped.
        """
        self._metrics.write_errors.inc()
        _log.warning("records were refused: %s", error)
        if not self._at_once:
            self._metrics.dropped.labels("refused").inc(len(records[0]))
            with self._access:
                self._spool.accept([records[0].batch])
        self._at_once = 0
        self._give_back()
        self._settle(connection)

    def _give_back(self) -> None:
        with self._access:
            self._spool.give_back()
            self._metrics.count_spool(self._spool)

    def _acceptable(self, connection: Connection, record: SpoolRecord) -> list[SpoolRecord]:
        """Return the part of a record that the database accepts; a refused series costs only its target's samples."""
        good = []
        for part in record.by_target():
            try:
                self._series.of(connection, [part])
                good.append(part)
            except _REFUSALS as error:
                _log.warning("records were refused: %s", error)
                self._metrics.dropped.labels("refused").inc(len(part))
        return [SpoolRecord.joined(good)] if good else []

    def _enter(self, connection: Connection, records: list[SpoolRecord]) -> int:
        """Write records that are not in the ledger, with their numbers; return the number of samples."""
        ids = self._series.of(connection, records)
        state = samples.begin_write(connection, self._spool.source, [record.batch for record in records])
        if len(state.fresh) < len(records):
            self._metrics.replayed_batches.inc(len(records) - len(state.fresh))
            records = [record for record in records if record.batch in state.fresh]
            ids = self._series.of(connection, records)
        return self._copy(connection, records, ids, state) if len(ids.series) else 0

    def _copy(self, connection: Connection, records: list[SpoolRecord], ids: Found, state: WriteState) -> int:
        times = np.concatenate([record.times for record in records])
        values = np.concatenate([record.values for record in records])
        dts = np.concatenate([record.dts for record in records])
        if (elsewhere := ids.series == ELSEWHERE).any():
            self._metrics.dropped.labels("taken").inc(int(np.count_nonzero(elsewhere)))
            ids, times, values, dts = ids.where(~elsewhere), times[~elsewhere], values[~elsewhere], dts[~elsewhere]
            if not len(times):
                return 0
        if taken := samples.taken_over(connection, self._spool.source, float(times.min())):
            mine = _before(taken, ids.targets, times)
            self._metrics.dropped.labels("taken").inc(len(mine) - int(np.count_nonzero(mine)))
            ids, times, values, dts = ids.where(mine), times[mine], values[mine], dts[mine]
            if not len(times):
                return 0
        self._refresh_tags(connection, state.version, float((times - dts).min()))
        values = rounded(values, ids.resolutions)
        if parts := self._tags.parts(ids.resources, times, dts, ids.counters):
            divided = np.array([part.sample for part in parts])
            kept = np.concatenate([np.setdiff1d(np.arange(len(times)), divided), divided])
            ids, times, values, dts = ids.where(kept), times[kept], values[kept], dts[kept]
            times[-len(parts) :] = [part.time for part in parts]
            dts[-len(parts) :] = [part.dt for part in parts]
        tags = self._tags.tag(ids.resources, times)
        columns = samples.Columns(times, ids.series, tags, values, dts)
        # Compression pays for a backlog; a live scrape has one sample per series.
        compressed = samples.worth_compressing(columns)
        samples.copy_samples(connection, columns, raw_cutoff=state.raw_cutoff, compressed=compressed, table=state.table)
        self._request_retags(connection, ids, times, dts, tags)
        if (ended := np.unique(tags[times < state.now - _SETTLED_SECONDS])).any():
            samples.mark_unsummarised(connection, ended.tolist())
        return len(times)

    def _refresh_tags(self, connection: Connection, version: int, lowest: float) -> None:
        if version != self._tags.version or lowest < self._tags.since:
            since = min(lowest, time.time()) - 60
            self._tags = Tags(samples.run_set_segments(connection, since), since, version)

    def _request_retags(
        self,
        connection: Connection,
        ids: Found,
        times: npt.NDArray[np.float64],
        dts: npt.NDArray[np.float32],
        tags: npt.NDArray[np.int32],
    ) -> None:
        """Request retagging of samples if run sets changed during the write: starts of runs do not wait for writes."""
        version, lowest = samples.end_write(connection), float((times - dts).min())
        if version == self._tags.version:
            return
        self._refresh_tags(connection, version, lowest)
        changed = self._tags.tag(ids.resources, times) != tags
        changed[[part.sample for part in self._tags.parts(ids.resources, times, dts, ids.counters)]] = True
        resources = ids.resources[changed]
        begins = (times - dts)[changed]
        samples.request_retag(
            connection,
            {resource: float(begins[resources == resource].min()) for resource in np.unique(resources).tolist()},
        )

    def _maintain(self, connection: Connection, settled: float = _SETTLED_SECONDS) -> None:
        self._maintained_at = time.monotonic()
        unread = self._metrics.unread_seconds  # read first: responses that are parsed meanwhile are in the spool
        with self._access:
            silence, oldest = self._spool.silence, self._spool.oldest
            written = (
                max(unread, self._spool.lag) < _WRITTEN_SECONDS and not _ASLEEP_SECONDS < silence < _GIVEN_UP_SECONDS
            )
            self._metrics.count_spool(self._spool)
        if oldest != self._forgotten:
            samples.forget_batches(connection, self._spool.source, oldest)
            self._forgotten = oldest
        if written:
            runs.end_lost_runs(connection, self._database.settings.lease)
        if moved := samples.retag(connection):
            self._metrics.retagged.inc(moved)
        if written:
            samples.summarise_ended_runs(connection, settled)


def _before(taken: Mapping[int, float], targets: Ids, times: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return a mask of samples scraped before another collector took over their target, which wrote the later ones."""
    since = np.full(max(int(targets.max()), *taken) + 1, np.inf)
    since[list(taken)] = list(taken.values())
    return times < since[targets]
