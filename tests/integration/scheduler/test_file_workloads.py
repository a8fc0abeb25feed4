"""Several files in one experiment: their rows and workloads stay apart."""

from __future__ import annotations

import uuid
from pathlib import Path

from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, fingerprint
from hypergauge.scheduler.plan.file_plan import planned, take_experiments
from hypergauge.scheduler.plan.plan import Action
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.session import Session
from tests.support.world import World

HEADER = "Experiment,Workload,Name,Status,Run,File,Params"
# As radT's files are: experiment 0, workloads from 0 on, and the same rows as in other files.
ROWS = ["0,0,alone,,,train.py,--a 1", "0,1,left,,,train.py,--a 1", "0,1,right,,,train.py,--a 2"]


def write(path: Path, *rows: str) -> ExperimentFile:
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return ExperimentFile.read(path)


def labels(world: World, file: ExperimentFile, rerun: str | None = None) -> list[str]:
    """Return the run, attempt and action of each row, in the file's order."""
    found = {
        run.row.line: f"{one.experiment}/{one.workload}/{run.position}@{run.attempt} {run.action}"
        for one in planned(world.connection, file, rerun)
        for run in one.runs
    }
    return [found[line] for line in sorted(found)]


def finish(world: World, path: Path) -> ExperimentFile:
    """Schedule a file as far as its runs' records go, and return it as it is then."""
    file = ExperimentFile.read(path)
    with Session(world.database) as session:
        take_experiments(session, file, into=True)
    for one in planned(world.connection, file, None):
        workload_id = experiments.open_workload(world.connection, one.experiment, one.workload)
        for run in one.runs:
            if run.action is Action.SKIP:
                continue
            run_id = uuid.uuid4().hex
            made = runs.NewRun(
                run_id, None, workload_id, run.position, run.attempt, run.row.name, "me", "python train.py", "-", "-",
                "", {}, "here", fingerprint(run.row),
            )  # fmt: skip
            runs.create_runs(world.connection, [made])
            world.connection.execute("update runs set status = 'finished' where run_id = %s", (run_id,))
            file.update({run.row.line: ("finished", run_id)})
    return ExperimentFile.read(path)


def test_rows_of_three_files_have_workloads_of_their_own(world: World, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.csv" for name in ("first", "second", "third")]
    first, second, third = (write(path, *ROWS) for path in paths)
    assert labels(world, first) == ["0/0/1@1 run", "0/1/1@1 run", "0/1/2@1 run"]
    finish(world, paths[0])
    assert labels(world, second) == ["0/2/1@1 run", "0/3/1@1 run", "0/3/2@1 run"]
    finish(world, paths[1])
    assert labels(world, third) == ["0/4/1@1 run", "0/5/1@1 run", "0/5/2@1 run"]
    finish(world, paths[2])
    # Each keeps them: what is done, what is repeated, and the same rows without what was written back.
    for path, numbers in zip(paths, ((0, 1), (2, 3), (4, 5)), strict=True):
        a, b = numbers
        done = ExperimentFile.read(path)
        assert labels(world, done) == [f"0/{a}/1@1 skip", f"0/{b}/1@1 skip", f"0/{b}/2@1 skip"]
        assert labels(world, done, "all") == [f"0/{a}/1@2 run", f"0/{b}/1@2 run", f"0/{b}/2@2 run"]
        assert labels(world, write(path, *ROWS)) == [f"0/{a}/1@2 run", f"0/{b}/1@2 run", f"0/{b}/2@2 run"]


def test_a_number_that_is_free_is_the_files_and_stays_so(world: World, tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    write(first, *ROWS)
    finish(world, first)
    write(second, "0,1,a,,,train.py,", "0,2,b,,,train.py,", "0,7,c,,,train.py,")
    assert labels(world, finish(world, second)) == ["0/8/1@1 skip", "0/2/1@1 skip", "0/7/1@1 skip"]
    write(first, *ROWS, "0,2,new,,,train.py,")  # its owner comes late
    assert labels(world, finish(world, first))[-1] == "0/9/1@1 skip"


def test_a_file_that_is_planned_has_its_numbers_before_its_first_run(world: World, tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    with Session(world.database) as session:
        take_experiments(session, write(first, *ROWS), into=False)
    assert labels(world, write(second, *ROWS))[0] == "0/2/1@1 run"
    assert labels(world, ExperimentFile.read(first))[0] == "0/0/1@1 run"


def test_a_file_that_was_moved_keeps_its_runs_and_a_copy_has_its_own(world: World, tmp_path: Path) -> None:
    old, copy, new = tmp_path / "old.csv", tmp_path / "copy.csv", tmp_path / "new.csv"
    write(old, *ROWS)
    finish(world, old)
    copy.write_bytes(old.read_bytes())
    assert labels(world, ExperimentFile.read(copy), "all") == ["0/2/1@1 run", "0/3/1@1 run", "0/3/2@1 run"]
    old.rename(new)
    assert labels(world, ExperimentFile.read(new), "all") == ["0/0/1@2 run", "0/1/1@2 run", "0/1/2@2 run"]
    with new.open("a") as file:
        file.write("0,1,more,,,train.py,--a 3\n")
    assert labels(world, finish(world, new))[-1] == "0/1/3@1 skip"
    assert labels(world, finish(world, copy), "all") == ["0/2/1@1 run", "0/3/1@1 run", "0/3/2@1 run"]


def test_workloads_that_came_without_a_file_are_the_experiments_own(world: World, tmp_path: Path) -> None:
    own = write(tmp_path / "own.csv", *ROWS)
    experiments.claim_experiment(world.connection, 0, name="own", source=str(own.path), into=False)
    experiments.open_workload(world.connection, 0, 1)
    assert labels(world, own)[1] == "0/1/1@1 run"
    assert labels(world, write(tmp_path / "other.csv", *ROWS)) == ["0/0/1@1 run", "0/2/1@1 run", "0/2/2@1 run"]
