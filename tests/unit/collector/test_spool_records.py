"""Records with many series: division by target, and segments with more than definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.sql.ingest.samples import LineHost
from hypergauge.sql.ingest.targets import TargetRow


def record(refs: range, definitions: dict[int, SeriesDefinition]) -> SpoolRecord:
    count = len(refs)
    return SpoolRecord(
        np.full(count, 1.0), np.array(refs, np.uint32), np.arange(count, dtype=np.float64), np.ones(count, np.float32),
        definitions,
    )  # fmt: skip


def test_a_record_of_several_targets_can_be_divided(tmp_path: Path) -> None:
    definitions = {ref: SeriesDefinition(ref // 10, "m", "gauge", {"n": str(ref)}) for ref in range(30)}
    spool = Spool(tmp_path)
    spool.append(SpoolRecord.joined([record(range(10 * target, 10 * target + 10), definitions) for target in range(3)]))
    together = spool.take()
    assert together is not None
    assert dict(together.series) == definitions
    apart = together.by_target()
    assert [part.refs.tolist() for part in apart] == [list(range(10 * target, 10 * target + 10)) for target in range(3)]
    assert {part.batch for part in apart} == {together.batch}
    assert together.series.get(30) is None
    spool.close()


@pytest.mark.parametrize("row", [None, TargetRow("n1", "node", "n1:1", "http://n1:1/metrics", says_host=True)])
@pytest.mark.parametrize("host", [None, LineHost(""), LineHost("node7", by_label=True)])
def test_a_definition_keeps_its_target_and_its_host(
    tmp_path: Path, row: TargetRow | None, host: LineHost | None
) -> None:
    definitions = {0: SeriesDefinition(-1 if row else 1, "m", "gauge", {"a": "b"}, row, host)}
    spool = Spool(tmp_path)
    spool.append(record(range(1), definitions))
    spool.close()
    spool = Spool(tmp_path)
    read = spool.take()
    assert read is not None
    assert dict(read.series) == definitions
    spool.close()


def test_segments_are_larger_if_definitions_would_fill_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.collector.spool.queue._SEGMENT_BYTES", 1 << 12)
    definitions = {ref: SeriesDefinition(1, "m", "gauge", {"n": str(ref), "long": "x" * 50}) for ref in range(1000)}
    spool = Spool(tmp_path)
    for _ in range(100):
        spool.append(record(range(1000), definitions))
    assert spool.size < 1.5 * 100 * 1000 * 24, "samples take most of the space"
    assert len(list(tmp_path.glob("*.spool"))) > 1
    while (taken := spool.take()) is not None:
        assert len(taken) == 1000
        spool.accept([taken.batch])
    assert spool.dropped_samples == 0
    spool.close()
