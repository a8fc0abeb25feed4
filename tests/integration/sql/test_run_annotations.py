"""Notes on runs, and runs that must stay."""

from __future__ import annotations

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.sql.runs import run_annotations
from hypergauge.sql.runs.selection import RunInfo, select_run, select_runs
from hypergauge.sql.schema.flavour import Flavour
from tests.support.world import World

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


def test_a_note_is_never_lost(world: World) -> None:
    world.run(1000.0, 1010.0)

    def add(text: str, *, append: bool = False, replace: bool = False) -> str:
        run = select_run(world.connection, "20/1/1")
        content = run_annotations.add_note(world.connection, run, text, append=append, replace=replace)
        assert select_run(world.connection, "20/1/1").note == content
        return content

    assert add("first", append=True) == "first"
    with pytest.raises(BadRequest):
        add("second")
    assert select_run(world.connection, "20/1/1").note == "first"
    assert add("second", append=True) == "first\n\nsecond"
    assert add("third", replace=True) == "third"


def test_runs_that_must_stay_are_named(world: World) -> None:
    world.run(1000.0, 1010.0)
    kept = world.run(1000.0, 1010.0, position=2)
    world.run(1000.0, position=3)
    run_annotations.keep(world.connection, [kept], True)
    ended, protected, running = select_runs(world.connection, ["20"])

    def check(*runs: RunInfo, user: str = "me", others: bool = False) -> None:
        run_annotations.check_removable(runs, user, others=others)

    check(ended)
    check(ended, user="you", others=True)
    with pytest.raises(BadRequest, match=r"20/1/1 \(me\)"):
        check(ended, user="you")
    with pytest.raises(BadRequest, match=r"^20/1/2 \(me\): "):
        check(ended, protected)
    with pytest.raises(BadRequest, match=r"^20/1/3 \(me\): "):
        check(ended, protected, running, user="you", others=True)
