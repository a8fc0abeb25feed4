"""Series ids: from the collector's refs to the database's ids. Each new series is registered once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.targets import TargetRow, find_target
from hypergauge.sql.server.database import Connection

__all__ = ["ELSEWHERE", "OPENED_AT_ONCE", "Found", "Ids", "SeriesIds"]

Ids = npt.NDArray[np.int32]

ELSEWHERE = -1
# After a restart, records of earlier processes have refs of their own, one era after the other. They alternate with
# records of the current era.
_ERAS = 4
# Series per statement. The JSON of 100,000 would block the scrapes, at the encoding and at the response.
OPENED_AT_ONCE = 1000


class Found(NamedTuple):
    """Ids of each sample's series, of the series' resource, and of the reporting target; 0 if unknown.

    `counters` is 1 for counters. `resolutions` are those of the sensors; 0 keeps values as read.
    """

    series: Ids
    resources: Ids
    targets: Ids
    counters: Ids
    resolutions: npt.NDArray[np.float64]

    @staticmethod
    def unknown(size: int = 0) -> Found:
        """Return `size` unknown series."""
        series, resources, targets, counters = np.zeros((4, size), np.int32)
        return Found(series, resources, targets, counters, np.zeros(size))

    @staticmethod
    def joined(parts: Sequence[Found]) -> Found:
        """Return all of `parts`, one after the other."""
        return Found._make(np.concatenate(ids) for ids in zip(*parts, strict=True))

    def where(self, which: npt.NDArray[np.bool_ | np.integer[Any]]) -> Found:
        """Return the ids of the selected samples."""
        return Found._make(ids[which] for ids in self)


class SeriesIds:
    """Database ids of the series that this collector has seen, by era and ref.

    Series are registered in their own transactions, so that a failed write of samples keeps them.

    Parameters
    ----------
    source
        The spool's identity. Without the database, the collector scrapes targets that another one may have. Their series
        get the id `ELSEWHERE` if it did.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._provisional: dict[TargetRow, int | None] = {}  # from the first lookup, for all of an outage
        self._eras: dict[int, Found] = {}

    def of(self, connection: Connection, records: Sequence[SpoolRecord]) -> Found:
        """Return the ids for the samples of `records`, in their order; register new series."""
        parts = [Found.unknown()]
        for record in records:
            known = self._known(record)
            if not (found := known.series[record.refs]).all():
                missing = np.unique(record.refs[found == 0]).tolist()
                self._open(connection, {ref: record.series[ref] for ref in missing}, known)
            parts.append(known.where(record.refs))
        return Found.joined(parts)

    def _known(self, record: SpoolRecord) -> Found:
        known = self._eras.pop(record.era, Found.unknown())
        if len(record) and (highest := int(record.refs.max())) >= len(known.series):
            # Doubles: linear time in total.
            more = max(highest + 1 - len(known.series), len(known.series))
            known = Found.joined([known, Found.unknown(more)])
        self._eras[record.era] = known  # at the end: the first era is the least recently used
        if len(self._eras) > _ERAS:
            del self._eras[next(iter(self._eras))]
        return known

    def _open(self, connection: Connection, new: dict[int, SeriesDefinition], known: Found) -> None:
        ids = {ref: self._target(connection, one) for ref, one in new.items()}
        # A target whose series were parsed again has two refs of one series, which is registered once.
        targets: dict[int, dict[tuple[str, tuple[tuple[str, str], ...]], list[int]]] = {}
        for ref, one in new.items():
            if (target := ids[ref]) is None:
                known.series[ref] = ELSEWHERE
                continue
            named = targets.setdefault(target, {})
            named.setdefault((one.metric, tuple(sorted(one.labels.items()))), []).append(ref)
        for target_id, named in targets.items():
            refs = list(named.values())
            for some in (refs[at : at + OPENED_AT_ONCE] for at in range(0, len(refs), OPENED_AT_ONCE)):
                wanted = [(new[ref].metric, new[ref].labels, new[ref].kind) for ref, *_ in some]
                hosts = [new[ref].host for ref, *_ in some]
                found = samples.open_series(connection, target_id, wanted, hosts)
                for same, opened in zip(some, found, strict=True):
                    known.series[same], known.resources[same] = opened.series_id, opened.place_id
                    known.targets[same], known.counters[same] = target_id, new[same[0]].kind == "counter"
                    known.resolutions[same] = opened.resolution or 0.0

    def _target(self, connection: Connection, one: SeriesDefinition) -> int | None:
        if one.target is None:
            return one.target_id
        if one.target not in self._provisional:
            self._provisional[one.target] = find_target(connection, self._source, one.target)
        return self._provisional[one.target]
