"""Backups and capsules of each earlier format, committed as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.transfer.importing import import_capsule
from hypergauge.sql.transfer.restore import restore
from tests.support.data.backups import Empty
from tests.support.data.formats import answers

pytestmark = pytest.mark.flavours

FILES = Path(__file__).parents[2] / "data" / "formats"
EXPERIMENTS = (7, 20)  # the raw samples of the first were deleted before the files were written


def expected(*experiments: int) -> dict[str, list[dict[str, Any]]]:
    """Return the queries' answers for the runs of `experiments` where the files come from."""
    found: dict[str, list[dict[str, Any]]] = json.loads((FILES / "runs.json").read_text(encoding="utf-8"))
    ids = [row["run_id"] for row in found["runs"] if row["experiment_id"] in experiments]
    return {topic: [row for row in rows if row["run_id"] in ids] for topic, rows in found.items()}


def compare(found: dict[str, list[dict[str, Any]]], wanted: dict[str, list[dict[str, Any]]]) -> None:
    """Assert equality; sums of numbers depend on the order of the rows."""
    assert found.keys() == wanted.keys()
    for topic, rows in wanted.items():
        assert len(found[topic]) == len(rows) > 0, topic
        for one, other in zip(found[topic], rows, strict=True):
            assert one.keys() == other.keys()
            for name, value in other.items():
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                assert one[name] == (pytest.approx(value) if is_number else value), (topic, name, other)


@pytest.mark.parametrize("number", [1])
def test_a_backup_of_an_earlier_format_is_restored(number: int, flavour: Flavour, empty: Empty) -> None:
    there = empty(flavour)
    restore(there, FILES / f"{number}.backup")
    with there.session() as connection:
        compare(answers(connection, EXPERIMENTS), expected(*EXPERIMENTS))


@pytest.mark.parametrize("number", [1])
def test_a_capsule_of_an_earlier_format_is_imported(number: int, flavour: Flavour, empty: Empty) -> None:
    there = empty(flavour).open()
    imported = import_capsule(there, FILES / f"{number}.capsule")
    assert (imported.experiments, imported.runs, imported.here) == ((20,), 4, 0)
    with there.session() as connection:
        compare(answers(connection, EXPERIMENTS), expected(20))
