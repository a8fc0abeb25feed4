"""Scraped target: its cache between scrapes, and the conversion of a response to a record of samples."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.clocks import CLOCK_METRIC, Clock, set_by
from hypergauge.collector.convert.created_timestamps import CreatedTimestamps
from hypergauge.collector.convert.definitions import Definitions, Numbering
from hypergauge.collector.convert.exposition import Parser, Scrape, Series
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.convert.run_ends import RunEnds
from hypergauge.collector.convert.sentinels import Sentinels
from hypergauge.collector.convert.series_labels import LimitExceeded, SeriesName, series_name
from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.last_lines import LastLines
from hypergauge.collector.scrape.new_series import NewSeries
from hypergauge.collector.scrape.resumption import Resumption
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.sql.ingest.targets import TargetState

__all__ = ["ScrapedTarget"]

_log = logging.getLogger(__name__)

# Tolerance for a line's timestamp ahead of the scrape, in seconds: clocks differ, and a request takes time.
_AHEAD_SECONDS = 1.0
# Cached series beyond four times those of a scrape. A target with ever-changing series then starts with an empty cache.
_MOST_CACHED = 50_000
# A run's end may be older than the last scrape before it is exposed. Lines that are stored already are dropped by their times.
_LATE_END_SECONDS = 5.0
_NO_REF = np.uint32(0xFFFFFFFF)


@dataclass(slots=True)
class ScrapedTarget:
    """Target with its cache between scrapes.

    Attributes
    ----------
    began
        Time of the first scrape, in Unix seconds.
    clock
        Clock of its host, shared by all targets of the host.
    lead
        The collector's `booted_at` at the last scrape.
    per_second
        Samples per second in its last scrape; 0 while it is down.
    unspooled
        Its records that are not yet in the spool, the oldest first.
    waking
        Ends the wait for its next scrape.
    last_lines
        State on disk, from which it continues after a restart; ``None`` without one.
    resumption
        What continues from the state of an earlier process.
    saving
        Call that saves the state after the last scrape, once its record is in the spool.
    """

    target: Target
    target_id: int
    definitions: Definitions
    metrics: CollectorMetrics
    began: float
    parser: Parser = field(default_factory=Parser)
    clock: Clock = field(default_factory=Clock)
    lead: float | None = None
    up: bool | None = None
    error: str = ""
    last_time: float | None = None
    per_second: float = 0.0
    unspooled: deque[asyncio.Task[None]] = field(default_factory=deque)
    waking: asyncio.Event = field(default_factory=asyncio.Event)
    last_lines: LastLines | None = None
    resumption: Resumption = field(default_factory=Resumption)
    saving: Callable[[], None] | None = None
    _numbering: Numbering = field(init=False)  # of its refs
    _rates: Rates = field(init=False)
    _created: CreatedTimestamps = field(init=False)
    _run_ends: RunEnds = field(default_factory=RunEnds)
    _sentinels: Sentinels = field(default_factory=Sentinels)
    _refs: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))  # ours by the parser's
    _named: dict[SeriesName, int] = field(default_factory=dict)
    _unnamed: bool = False  # whether a ref is `_NO_REF`: dropped by a rule, or a repeated name
    _beyond: dict[int, LimitExceeded] = field(default_factory=dict)
    _pending: dict[int, Series] = field(default_factory=dict)  # new series of scrapes that exceeded a limit
    _obsolete: list[int] = field(default_factory=list)  # refs that only unspooled records may need
    _new_series: NewSeries = field(default_factory=NewSeries)
    _clock_ref: int | None = None
    _declared_otherwise: set[str] = field(default_factory=set)
    _crowded: bool = False
    _anew: bool = False  # whether the next state has other series at its refs
    _shift: int = 0

    def __post_init__(self) -> None:
        self._numbering = self.definitions.numbering()
        self._restart_conversion()

    @property
    def state(self) -> TargetState:
        """State of the target, for the database."""
        return TargetState(self.up, self.last_time, self.clock.offset, self.clock.uncertainty, self.error)

    @property
    def is_heavy(self) -> bool:
        """Return whether all series of the next response are new: parsing then takes fifty times as long."""
        return self._crowded or not self.parser.series

    def read(
        self, exposition: bytes, at: float, requested: float, answered: float, lead: float, most_new: int | None = None
    ) -> SpoolRecord | None:
        """Return the record of the next response; callable from any thread, one response at a time."""
        scrape = self.parse(exposition, most_new)
        record = self.take(scrape, at, requested, answered, lead)
        self.metrics.scraped.inc(len(scrape.refs))
        return record

    def parse(self, exposition: bytes, most_new: int | None = None) -> Scrape:
        """Parse the next response.

        Raises
        ------
        GarbageExposition
            All lines are malformed.
        ManyNew
            The response has more than `most_new` new series; parse it again without that limit.
        """
        if self._crowded:
            self._clear_cache()
        return self.parser.parse(exposition, most_new)

    def take(
        self, scrape: Scrape, at: float, requested: float, answered: float, lead: float | None = None
    ) -> SpoolRecord | None:
        """Return the record of a scrape, ``None`` without samples.

        Parameters
        ----------
        at
            The scrape's time by the collector's clock; its samples get the time by the clock of the target's host.
        requested, answered
            Times of the request and of the response's begin, for the clock.
        lead
            The collector's `booted_at` at the request.

        Raises
        ------
        LimitExceeded
            The scrape exceeds a limit of its job; none of its samples are stored.
        """
        self.renumber()
        self._crowded = len(self.parser.series) > _MOST_CACHED + 4 * len(scrape.refs)
        if self._obsolete and all(appending.done() for appending in self.unspooled):
            self._numbering.forget(self._obsolete)
            self._obsolete = []
        for reason, count in (("malformed", scrape.malformed), ("repeated", scrape.repeated)):
            self._drop(reason, count)
        self._name(scrape)
        if self._pending:
            scrape = replace(scrape, new={**self._pending, **scrape.new})
        whole = scrape
        self._read_clock(scrape, requested, answered, lead)
        self._hold(scrape.new, self._beyond_limits(scrape))
        if self._unnamed:
            named = self._refs[scrape.refs] != _NO_REF
            self._drop("relabel", len(named) - int(np.count_nonzero(named)))
            scrape = scrape.chosen(named)
        self._hold(scrape.new, self._too_many(len(scrape.refs)) or self._too_many_new(scrape, at))
        self._pending = {}
        seen = at
        if every := self._follow_clocks(lead):
            scrape, whole = replace(scrape, new=every), replace(whole, new=every)
        at += self._shift
        before = None if self.last_time is None else self.last_time + self._shift
        resumed = self.resumption.of(scrape, self._definition)
        created = self._created.of(whole, self.parser.series, at, before, resumed)
        ends = self._run_ends.of(whole, self.parser.series, self._rates.since)
        if (over := self._run_ends.left_out(scrape, self.parser.series)) is not None:
            scrape = scrape.chosen(~over)
        if (missing := self._sentinels.find(scrape)) is not None:
            self._drop("sentinel", int(np.count_nonzero(missing)))
            scrape = scrape.chosen(~missing)
        self._retime(scrape, at, ends)
        found = self._rates.samples(scrape, at, created, resumed)
        self._drop("stale", found.dropped)
        self.last_time, self.per_second = seen, len(scrape.refs) / self.target.interval
        if self.last_lines is not None:
            self.saving = partial(
                self.last_lines.write,
                dict(scrape.new),
                list(self.parser.series),
                self._rates.last_lines,
                anew=self._anew,
            )
            self._anew = False
        if not len(found.refs):
            return None
        refs, series = self._refs[found.refs], self._numbering.by_ref
        return SpoolRecord(found.times, refs, found.values, found.dts, series, numbering=self._numbering.number)

    def is_same_but_for_the_interval(self, target: Target) -> bool:
        """Return whether `target` is this one, perhaps with another interval."""
        return replace(target, interval=self.target.interval) == self.target

    def scrape_every(self, interval: float) -> None:
        """Change the seconds between scrapes; counters continue, and the cache stays."""
        self.target = replace(self.target, interval=interval)
        self._rates.interval = interval
        self.waking.set()

    def renumber(self) -> None:
        """Switch to a new numbering, if any; the previous one is freed when no target uses it."""
        before, self._numbering = self._numbering, self.definitions.numbering()
        if before is self._numbering:
            return
        self._obsolete = []
        for at in np.flatnonzero(self._refs != _NO_REF).tolist():
            self._refs[at] = self._numbering.add(before.by_ref[int(self._refs[at])])

    def forget(self) -> None:
        """Forget all its series; its records are in the spool."""
        if self.last_lines is not None:
            self.last_lines.discard()
        self._numbering.forget([*self._obsolete, *self._refs.tolist()])

    def _drop(self, reason: str, count: int) -> None:
        if count:
            self.metrics.dropped.labels(reason).inc(count)

    def _name(self, scrape: Scrape) -> None:
        """Give new series their names and the collector's refs."""
        if not scrape.new:
            return
        grown = np.full(len(self.parser.series), _NO_REF)
        grown[: len(self._refs)] = self._refs
        known, self._refs = len(self._refs), grown
        self._sentinels.meet(scrape.new, len(grown))
        if any(ref < known for ref in scrape.new):  # the parser has forgotten series and reused their refs
            self._named = {name: ref for name, ref in self._named.items() if ref not in scrape.new}
        for ref, series in scrape.new.items():
            if ref < known:
                self._obsolete.append(int(self._refs[ref]))
                self._beyond.pop(ref, None)
            self._refs[ref] = self._ref(ref, series, scrape)
            if series.metric == CLOCK_METRIC and not series.labels:
                self._clock_ref = ref
        self._unnamed = bool((self._refs == _NO_REF).any())

    def _ref(self, ref: int, series: Series, scrape: Scrape) -> np.uint32:
        try:
            name = series_name(self.target, series)
        except LimitExceeded as error:
            self._beyond[ref] = error
            return _NO_REF
        if name is None:
            return _NO_REF
        series = self._by_catalog(ref, series, name.metric, scrape)
        other = self._named.get(name, ref)
        if other != ref:
            if np.any(scrape.refs == other):
                return _NO_REF  # relabeling merged two series: the first counts
            self._obsolete.append(int(self._refs[other]))
            self._refs[other] = _NO_REF
        self._named[name] = ref
        provisional = self.target.row if self.target_id < 0 else None
        definition = SeriesDefinition(
            self.target_id, name.metric, series.kind, dict(name.labels), provisional, name.host
        )
        return np.uint32(self._numbering.add(definition))

    def _definition(self, ref: int) -> SeriesDefinition | None:
        own = self._refs[ref]
        return None if own == _NO_REF else self._numbering.by_ref[int(own)]

    def _by_catalog(self, ref: int, series: Series, metric: str, scrape: Scrape) -> Series:
        """Return a series with the kind of the catalog; notify once per metric if its source declares another."""
        kind = self.definitions.kinds.get(metric, series.kind)
        if kind == series.kind:
            return series
        if series.is_declared and metric not in self._declared_otherwise:
            self._declared_otherwise.add(metric)
            self.metrics.kind_conflicts.labels(metric).inc()
            _log.warning(
                "%s declares %s as a %s: it is read as a %s, by the catalog; remove the row of metrics if the catalog is wrong",
                self.target.url, metric, series.kind, kind,
            )  # fmt: skip
        series = scrape.new[ref] = self.parser.series[ref] = replace(series, kind=kind)
        return series

    def _hold(self, new: dict[int, Series], error: LimitExceeded | None) -> None:
        """Raise `error`, if any, and mark the new series as new for the next scrape."""
        if error is not None:
            self._pending = new
            raise error

    def _beyond_limits(self, scrape: Scrape) -> LimitExceeded | None:
        if not self._beyond:
            return None
        shown = np.intersect1d(scrape.refs, list(self._beyond))
        return self._beyond[int(shown[0])] if len(shown) else None

    def _too_many(self, count: int) -> LimitExceeded | None:
        limit = self.target.scraping.limits.sample_limit
        if not limit or count <= limit:
            return None
        return LimitExceeded("sample_limit", f"{count} series exceed the limit of {limit}")

    def _too_many_new(self, scrape: Scrape, at: float) -> LimitExceeded | None:
        new = sum(self._refs[ref] != _NO_REF for ref in scrape.new)
        return self._new_series.add(new, at, self.target.scraping.limits.sample_limit)

    def _read_clock(self, scrape: Scrape, requested: float, answered: float, lead: float | None) -> None:
        if self._clock_ref is not None:
            read = scrape.values[scrape.refs == self._clock_ref]
            if len(read) and np.isfinite(read[0]):
                self.clock.read(float(read[0]), requested, answered, lead)

    def _follow_clocks(self, lead: float | None) -> dict[int, Series]:
        """Follow changes of the collector's clock and the host's; return the series that restart on the new time.

        These are none if the change is known, else all.
        """
        turned, self._shift = self.clock.shift - self._shift, self.clock.shift
        step, self.lead = set_by(self.lead, lead), lead
        if not step and not turned:
            return {}
        self._run_ends.go_by_another_time()
        if step:  # moves the host's time too, unless the offset changed as much
            self.began += step
            if self.last_time is not None:
                self.last_time += step
            self._rates.move(step + turned)
            self._created.move(step + turned)
            return {}
        self._restart_conversion()
        return dict(enumerate(self.parser.series))

    def _restart_conversion(self) -> None:
        """Convert all series anew from the last scrape on."""
        if self.last_time is None and self.resumption.at is not None:
            since, created_since = self.resumption.at - _LATE_END_SECONDS, self.resumption.at
        else:
            since = created_since = (self.last_time or self.began) + self._shift
        self._rates, self._created = Rates(self.target.interval, since), CreatedTimestamps(created_since)

    def _retime(self, scrape: Scrape, at: float, ends: Mapping[str, float]) -> None:
        """Set the timestamps of ended runs' last lines, and replace timestamps in the future by the scrape's time.

        A future timestamp would block its series until then.
        """
        if not self.target.scraping.honor_timestamps:
            scrape.timestamps[:] = np.nan
        if ends:
            self._run_ends.date(scrape, self.parser.series, ends)
        ahead = scrape.timestamps > at + _AHEAD_SECONDS
        if count := int(np.count_nonzero(ahead)):
            scrape.timestamps[ahead] = np.nan
            self.metrics.retimed.inc(count)

    def _clear_cache(self) -> None:
        """Clear the cache, which bounds the memory for a target with ever-changing series."""
        self._obsolete += self._refs.tolist()
        self.parser, self._refs = Parser(), np.zeros(0, np.uint32)
        self._restart_conversion()
        self._anew = True  # earlier states may still wait for their records
        self._sentinels, self._run_ends = Sentinels(), RunEnds()
        self._named, self._beyond, self._pending, self._clock_ref, self._unnamed = {}, {}, {}, None, False
        self._crowded = False
