"""Records of samples, and the definitions of their series."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hypergauge.collector.spool.frames import DEFINITIONS, SAMPLE_BYTES, Frame, encode
from hypergauge.sql.ingest.samples import LineHost
from hypergauge.sql.ingest.targets import TargetRow

__all__ = ["KnownSeries", "SeriesDefinition", "SpoolRecord"]

_FIELDS = (("times", "<f8"), ("refs", "<u4"), ("values", "<f8"), ("dts", "<f4"))


@dataclass(frozen=True, slots=True)
class SeriesDefinition:
    """Definition of a series for the database: target, name, labels, and kind as in `exposition`.

    While the database is down, the target's id is one of the collector's own, and `target` has the target's row. `host` is
    the host that the series' labels give.
    """

    target_id: int
    metric: str
    kind: str
    labels: dict[str, str]
    target: TargetRow | None = None
    host: LineHost | None = None

    def row(self) -> list[Any]:
        """Return the definition for JSON."""
        row: list[Any] = [self.target_id, self.metric, self.kind, self.labels]
        if self.host is not None:
            return [*row, self.target and astuple(self.target), self.host]
        return row if self.target is None else [*row, astuple(self.target)]

    @classmethod
    def of_row(
        cls, target_id: int, metric: str, kind: str, labels: dict[str, str], target: Any = None, host: Any = None
    ) -> SeriesDefinition:
        """Return the definition of a `row`."""
        return cls(
            target_id, metric, kind, labels, TargetRow(*target) if target else None, LineHost(*host) if host else None
        )


@dataclass(frozen=True, slots=True, eq=False)
class SpoolRecord:
    """Samples that are written together: arrays of shape ``(n,)``, see `hypergauge.collector.convert.rates.Samples`.

    Attributes
    ----------
    refs
        Series, by numbers that are valid until the collector restarts.
    series
        Definitions of these series, and possibly of others.
    batch
        Number of the record, set by `Spool.append`.
    era
        Scope within which a ref always means the same series; set by `Spool.take`.
    numbering
        Scope of refs in the collector, see `hypergauge.collector.convert.definitions`; for `Spool.append`.
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
        return encode(batch, b"".join(arrays))

    def encode_series(self, refs: Iterable[int]) -> bytes:
        """Return the definitions of `refs` as a frame."""
        found = {ref: one for ref in refs if (one := self.series.get(ref)) is not None}
        rows = [one.row() for one in found.values()]
        head = np.array([len(found), *found], "<u4").tobytes()
        return encode(DEFINITIONS, head + json.dumps(rows).encode())

    @classmethod
    def joined(cls, records: Sequence[SpoolRecord]) -> SpoolRecord:
        """Join records with the same `series` and `numbering`."""
        if len(records) == 1:
            return records[0]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in records]) for name, _ in _FIELDS}
        return replace(records[0], **arrays)

    def by_target(self) -> list[SpoolRecord]:
        """Return a record for each target, with the batch and the era of this one."""
        targets = np.array([self.series[ref].target_id for ref in self.refs.tolist()])
        parts = [np.flatnonzero(targets == target) for target in np.unique(targets)]
        return [replace(self, **{name: getattr(self, name)[part] for name, _ in _FIELDS}) for part in parts]

    @classmethod
    def decode(cls, frame: Frame, known: KnownSeries, era: int) -> SpoolRecord:
        """Return the record of a frame, without samples whose series is not `known`."""
        count = len(frame.payload) // SAMPLE_BYTES
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
    """Definitions read from a segment, by ref.

    A definition is decoded on first use: each segment repeats all series, and the writer knows most of them already.
    """

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._frame_of = np.zeros(0, np.int32)  # by ref: number of the frame, from 1
        self._decoded: dict[int, SeriesDefinition] = {}

    def add(self, frame: Frame) -> None:
        """Add a frame of `DEFINITIONS`, unless it is the second copy of one."""
        refs = _defined(frame.payload)
        if self.has(refs).all():
            return
        if (size := int(refs.max()) + 1) > len(self._frame_of):
            more = max(size - len(self._frame_of), len(self._frame_of))  # doubles: linear time in total
            self._frame_of = np.concatenate([self._frame_of, np.zeros(more, np.int32)])
        self._frames.append(frame.payload)
        self._frame_of[refs] = len(self._frames)

    def has(self, refs: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return a mask of the defined refs."""
        if not len(refs) or refs.max() < len(self._frame_of):
            return self._frame_of[refs] > 0
        return np.isin(refs, np.flatnonzero(self._frame_of))

    def __getitem__(self, ref: int) -> SeriesDefinition:
        if ref not in self._decoded:
            if not 0 <= ref < len(self._frame_of) or not self._frame_of[ref]:
                raise KeyError(ref)
            payload = self._frames[self._frame_of[ref] - 1]
            refs = _defined(payload)
            rows = json.loads(payload[refs.nbytes + 4 :])
            self._decoded |= {one: SeriesDefinition.of_row(*row) for one, row in zip(refs.tolist(), rows, strict=True)}
        return self._decoded[ref]

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._frame_of).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._frame_of))


def _defined(payload: bytes) -> npt.NDArray[np.uint32]:
    """Return the refs of a frame of `DEFINITIONS`."""
    return np.frombuffer(payload, "<u4", int.from_bytes(payload[:4], "little"), 4)
