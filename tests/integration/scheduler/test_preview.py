"""Preview of a file before anything starts, and the next attempt of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row
from hypergauge.scheduler.plan.file_plan import numbers, take_experiments
from hypergauge.scheduler.provenance.manifest import MANIFEST
from hypergauge.scheduler.requests.preview import check_owner, preview
from hypergauge.scheduler.requests.repetition import Repetition
from hypergauge.sql.runs.selection import select_run
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.session import Session
from tests.support.world import World

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


def write(path: Path, workload: int = 1) -> ExperimentFile:
    path.write_text(
        f"Experiment,Workload,File,Devices,Team\n20,{workload},train.py,0,a\n20,{workload + 1},train.py,1,a\n"
    )
    return ExperimentFile.read(path)


def test_a_file_is_planned_and_what_it_has_more_is_reported(world: World, settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, simulate="2xH100")
    ours, theirs = write(tmp_path / "ours.csv"), write(tmp_path / "theirs.csv")
    said: list[str] = []
    session = Session(world.database)
    found = preview(settings, session, ours, None, None, said.append, said.append)
    assert [(one.workload, len(one.runs)) for one in found.workloads] == [(1, 1), (2, 1)]
    assert [line.count("Team") for line in said] == [1]
    check_owner(session, ours)
    with Session(world.database) as other:
        take_experiments(other, theirs, into=False)
    with pytest.raises(BadRequest) as refused:
        check_owner(session, ours)
    assert (refused.value.file, refused.value.line) == (ours.path, 2)
    said.clear()
    found = preview(settings, session, ours, None, None, said.append, said.append)
    assert [one.workload for one in found.workloads] == [3, 4]
    assert ["20/1, 20/2" in line and "20/3, 20/4" in line for line in said] == [False, True]
    session.close()


def test_a_repetition_is_the_next_attempt_in_its_workload(world: World, settings: Settings) -> None:
    first = world.run(1000.0, 1010.0)
    world.run(1020.0, 1030.0, attempt=4)
    world.run(1000.0, 1010.0, position=2)
    world.run(1000.0, 1010.0, position=3)
    world.run(1000.0, 1010.0, workload=2)
    chosen = select_run(world.connection, first)
    with pytest.raises(BadRequest, match="manifest"):
        Repetition.of(world.connection, settings, chosen)
    folder = RunFolder(settings.runs_dir / first)
    folder.create({})
    manifest = folder.path / MANIFEST
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text("{}")
    found = Repetition.of(world.connection, settings, chosen)
    assert (found.previous.run_id, found.experiment, found.attempt, found.others) == (first, 20, 5, 2)


class CountedRows(tuple[Row, ...]):
    """Rows that count how often they are read."""

    reads = 0

    def __iter__(self) -> Iterator[Row]:
        type(self).reads += 1
        return super().__iter__()


def test_a_file_of_many_experiments_is_read_a_few_times(world: World, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("Experiment,Workload,File\n" + "".join(f"{20 + number},1,train.py\n" for number in range(30)))
    file = ExperimentFile.read(path)
    file.rows = CountedRows(file.rows)
    assert numbers(world.connection, file) == {20 + number: {1: 1} for number in range(30)}
    assert CountedRows.reads == 1
