"""The demo beside experiments of users."""

from __future__ import annotations

import shutil
from pathlib import Path

from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.sql.runs.experiments import choose_id, claim_experiment
from hypergauge.stack.demo import number_demo
from tests.support.world import World

TEMPLATE = Path(__file__).parents[3] / "cli/templates/demo/demo.csv"


def test_it_is_experiment_0_unless_that_is_another_files(world: World) -> None:
    connection = world.connection
    assert choose_id(connection, "/home/demo.csv", 0) == 0
    claim_experiment(connection, 0, name="radt", source="/lab/radt.csv", into=False)
    assert choose_id(connection, "/home/demo.csv", 0) == 1
    claim_experiment(connection, 7, name="mine", source="/lab/mine.csv", into=False)
    assert choose_id(connection, "/home/demo.csv", 0) == 8
    claim_experiment(connection, 8, name="demo", source="/home/demo.csv", into=False)
    claim_experiment(connection, 9, name="later", source="/lab/later.csv", into=False)
    assert choose_id(connection, "/home/demo.csv", 0) == 8
    assert choose_id(connection, "/lab/radt.csv", 0) == 0


def test_its_rows_are_of_the_experiment_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "demo.csv"
    shutil.copy(TEMPLATE, path)
    before = ExperimentFile.read(path).rows
    number_demo(path, 0)
    assert path.read_bytes() == TEMPLATE.read_bytes()
    number_demo(path, 12)
    after = ExperimentFile.read(path).rows
    assert [row.experiment for row in after] == [12] * len(before)
    assert [(row.workload, row.name, row.params) for row in after] == [(r.workload, r.name, r.params) for r in before]
