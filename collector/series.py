"""From the collector's refs to the database's ids: a series is opened when it is first met, and looked up from then on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from collector.segments import SeriesDefinition, SpoolRecord
from sql import samples
from sql.database import Connection

__all__ = ["Ids", "SeriesIds"]

Ids = npt.NDArray[np.int32]

# After a restart, records of former lives of the collector bring refs of their own. They come one era after the other,
# beside those of the present one.
_ERAS = 4


class SeriesIds:
    """Ids and places of the series that this collector has met, by era and ref. Id 0 is none."""

    def __init__(self) -> None:
        self._eras: dict[int, tuple[Ids, Ids]] = {}

    def of(self, connection: Connection, records: Sequence[SpoolRecord]) -> tuple[Ids, Ids]:
        """Return series ids and places of the samples of `records`, one after the other; open the series that are new."""
        parts = []
        for record in records:
            ids, places = self._known(record)
            if not (found := ids[record.refs]).all():
                missing = np.unique(record.refs[found == 0]).tolist()
                self._open(connection, {ref: record.series[ref] for ref in missing}, ids, places)
                found = ids[record.refs]
            parts.append((found, places[record.refs]))
        none = np.zeros(0, np.int32)
        return np.concatenate([none, *(ids for ids, _ in parts)]), np.concatenate([none, *(at for _, at in parts)])

    def _known(self, record: SpoolRecord) -> tuple[Ids, Ids]:
        ids, places = self._eras.pop(record.era, (np.zeros(0, np.int32), np.zeros(0, np.int32)))
        if len(record) and (highest := int(record.refs.max())) >= len(ids):
            more = np.zeros(
                max(highest + 1 - len(ids), len(ids)), np.int32
            )  # doubles, so that growing is linear in all
            ids, places = np.concatenate([ids, more]), np.concatenate([places, more])
        self._eras[record.era] = ids, places  # behind the others: the first is the one used longest ago
        if len(self._eras) > _ERAS:
            del self._eras[next(iter(self._eras))]
        return ids, places

    def _open(self, connection: Connection, new: dict[int, SeriesDefinition], ids: Ids, places: Ids) -> None:
        targets: dict[int, list[int]] = {}
        for ref, definition in new.items():
            targets.setdefault(definition.target_id, []).append(ref)
        for target_id, refs in targets.items():
            wanted = [(new[ref].metric, new[ref].labels) for ref in refs]
            for ref, opened in zip(refs, samples.open_series(connection, target_id, wanted), strict=True):
                ids[ref], places[ref] = opened.series_id, opened.place_id
