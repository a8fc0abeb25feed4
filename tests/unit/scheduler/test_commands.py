"""Commands of rows: an entry point, an MLflow project, and refusals."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.job import job_from_row
from tests.support.data.rows import Write, command, problems

# --- entry points -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry_point", "words"),
    [
        ("{python} train.py --model {model} {params} --data={data}", "train.py --model r50 --lr 0.1 --data=/d"),
        ("{python} train.py {model}", "train.py r50 --lr 0.1"),
        ("{python} -m torch.run --name {name} --args='{params}'", "-m torch.run --name r50 '--args=--lr 0.1'"),
    ],
)
def test_a_model_goes_through_its_entry_point(write: Write, entry_point: str, words: str) -> None:
    toml = f'[environments.torch]\nentry_point = "{entry_point}"\ndirectory = "."\nvariables = {{A = "1"}}\n'
    file = write("1,1,torch,,r50,/d,--lr 0.1", toml=toml)
    made = command(file)
    job = job_from_row(file, file.rows[0], Inventory(), position=1, attempt=1, previous=None)
    assert job.shown_command == f"{Path(sys.executable).name} {words}"
    assert (made.words[0], made.variables, made.directory) == (sys.executable, {"A": "1"}, Path.cwd())
    assert job.params == {"model": "r50", "data": "/d", "lr": "0.1"}


def test_no_secret_is_shown_wherever_parameters_go(write: Write) -> None:
    toml = "[environments.torch]\nentry_point = \"sh -c 'run {params}' {params}\"\n"
    made = command(write("1,1,torch,,r50,,--token hunter2", toml=toml))
    assert made.words == ("sh", "-c", "run --token hunter2", "--token", "hunter2")
    assert "hunter2" not in made.shown


def test_a_named_environment_is_where_bench_toml_points(write: Write, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    below = Path.cwd() / "below"
    below.mkdir()
    made = command(write("1,1,mine,train.py,,,", toml='[environments.mine]\nvenv = "../env"\ndirectory = "below"\n'))
    assert (made.words[0], made.directory, made.variables["VIRTUAL_ENV"]) == (
        str(Path.cwd() / "../env/bin/python"), below, str(Path.cwd() / "../env"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "toml", "expected"),
    [
        ("1,1,torch,,r50,,", "", "2:13: Model: a model needs an entry point: define entry_point in the section [environments.torch] of b"),
        ("1,1,torch,,r50,,", "[environments.torch]", "2:11: Model: a model needs an entry point: define entry_point in"),
        ("1,1,-,,r50,,", "", "2:8: Model: a model needs an entry point: define entry_point in the section [environments.NAME] of"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} {modle}'", "entry_point has an unknown placeholder {modle} (did you mean 'model'?)"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} {'", "entry_point cannot be read: "),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = ''", "entry_point is empty"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} trian.py'", "the script 'trian.py' does not exist in {work} (did you mean 'train.py'?)"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = 'torchrnu x'", "there is no program 'torchrnu' in PATH"),
        ("1,1,torch,train.py,,,", "[environments.torch]\ndirectory = 'gone'", "[environments.torch]: there is no folder {work}/gone"),
        ("1,1,torch,train.py,,,", "[environments.torch]\npython = '/gone/python'", "2:5: Environment: there is no interpreter /gone/python"),
        ("1,1,-,train.py,,/d,", "", "2:19: Data: data is for a model's entry point, but this row has a script"),
    ],
)  # fmt: skip
def test_entry_points_that_are_none(write: Write, row: str, toml: str, expected: str) -> None:
    found = problems(write(row, toml=toml))
    assert expected.partition(": ")[2].format(work=Path.cwd()) in found
    assert len(found.splitlines()) == 1


# --- MLflow projects --------------------------------------------------------------------------------------------------

PROJECT = """
name: tutorial
python_env: python_env.yaml
entry_points:
  main:
    parameters:
      alpha: {type: float, default: 0.5}
      data: path
    command: "python train.py {data} --alpha {alpha}"
"""


@pytest.fixture
def project(write: Write) -> Path:
    """Create an MLflow project in the working directory's folder ``project``."""
    folder = Path.cwd() / "project"
    folder.mkdir()
    (folder / "MLproject").write_text(PROJECT)
    (folder / "python_env.yaml").write_text("python: '3.11'\n")
    return folder


@pytest.mark.parametrize("cell", ["project", "project/MLproject"])
def test_a_project_is_put_together_by_mlflow(write: Write, project: Path, cell: str) -> None:
    made = command(write(f"1,1,-,{cell},,,data=/d/x --lr 0.1 --note 'a b'"))
    assert made.words == ("python", "train.py", "/d/x", "--alpha", "0.5", "--lr", "0.1", "--note", "a b")
    assert made.directory == project
    assert made.variables["PATH"].startswith(f"{Path(sys.executable).parent}{os.pathsep}")


def test_a_project_with_a_command_for_a_shell_gets_one(write: Write, project: Path) -> None:
    (project / "MLproject").write_text(PROJECT.replace("python train.py", "python prepare.py && python train.py"))
    words = command(write("1,1,-,project,,,--data x")).words
    assert words == ("bash", "-c", "python prepare.py && python train.py x --alpha 0.5")


@pytest.mark.parametrize(
    ("content", "params", "expected"),
    [
        (PROJECT, "alpha=1", "No value given for missing parameters: 'data'"),
        (PROJECT, "data=x --fast", "the parameter '--fast' of a project has no value"),
        (PROJECT, "x", "'x' is not a parameter of a project: write name=value"),
        ("entry_points: {other: {command: x}}\n", "", "Could not find main among entry points ['other']"),
        ("entry_points: [\n", "", "MLflow cannot read the project: "),
    ],
)
def test_projects_that_cannot_be_run(write: Write, project: Path, content: str, params: str, expected: str) -> None:
    (project / "MLproject").write_text(content)
    assert f"Params: {expected}" in problems(write(f"1,1,-,project,,,{params}")).replace(f"{project}: ", "")


def test_a_folder_that_is_no_project(write: Write) -> None:
    Path("empty").mkdir()
    assert "2:7: File: the script 'empty' is a folder, and has no file MLproject" in problems(write("1,1,-,empty,,,"))


def test_what_is_no_string_is_refused_where_it_stands(write: Write) -> None:
    with pytest.raises(BadRequest, match=r"\[environments\.x\]: mounts must be a list of strings"):
        problems(write("1,1,x,train.py,,,", toml="[environments.x]\nmounts = 'a'\n"))
