"""Environments of experiment files: the command that a row becomes, and why one is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.errors import BadRequest
from bench.gpu import Inventory
from bench.runfolder import RunFolder
from scheduler.checks import load
from scheduler.commands import command_of, make_environments
from scheduler.containers import Container, Mount
from scheduler.environments import CondaEnvironment
from scheduler.experiment_file import BadExperimentFile, ExperimentFile
from scheduler.job import job_from_row
from scheduler.launch import Command, launched
from tests import fake_conda, fake_docker

LISTENERS = dict.fromkeys(("host", "process"))
HEADER = "Experiment,Workload,Environment,File,Model,Data,Params\n"
IMAGE = "nvcr.io/nvidia/pytorch:25.01-py3"

Write = Callable[..., ExperimentFile]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of ``PATH``, in which no conda and no docker are but those that a test lays there."""
    folder = tmp_path / "conda" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.delenv("MAMBA_EXE", raising=False)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path) -> Write:
    """Return a function that writes an experiment file of these rows beside a ``train.py``, with a ``bench.toml``."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").touch()
    monkeypatch.chdir(work)

    def write(*rows: str, toml: str = "") -> ExperimentFile:
        (work / "bench.toml").write_text(toml)
        path = work / "experiments.csv"
        path.write_text(HEADER + "\n".join(rows) + "\n")
        return ExperimentFile.read(path)

    return write


@pytest.fixture
def docker(programs: Path) -> Iterator[Path]:
    """A Docker whose daemon answers."""
    program = fake_docker.install(programs, IMAGE)
    with fake_docker.daemon(program):
        yield program


def command(file: ExperimentFile) -> Command:
    """Check a file, and return the command of its only row."""
    load(file.path, Inventory(), LISTENERS)
    [row] = file.rows
    return command_of(file, row)


def problems(file: ExperimentFile) -> str:
    """Return what is said of a file that cannot be run."""
    with pytest.raises(BadExperimentFile) as caught:
        load(file.path, Inventory(), LISTENERS)
    return str(caught.value).replace(f"{file.path}:", "")


# --- conda ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["conda", "mamba", "micromamba"])
def test_a_conda_environment_is_run_as_if_activated(write: Write, programs: Path, name: str) -> None:
    fake_conda.install(programs, name)
    prefix = fake_conda.add(programs, "torch", {"cuda.sh": 'export CUDA_HOME="$CONDA_PREFIX/cuda"; echo hello\n'})
    (prefix / "conda-meta" / "state").write_text(json.dumps({"env_vars": {"OMP_NUM_THREADS": 4}}))
    made = command(write("1,1,conda:torch,train.py,,,--lr 0.1"))
    assert made.words == (f"{prefix}/bin/python", f"{Path.cwd()}/train.py", "--lr", "0.1")
    assert made.variables == {
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": "torch",
        "CONDA_SHLVL": "1",
        "PATH": f"{prefix}/bin{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "4",
        "CUDA_HOME": f"{prefix}/cuda",
    }


def test_a_bare_name_is_a_conda_environment(write: Write, programs: Path) -> None:
    fake_conda.install(programs)
    prefix = fake_conda.add(programs, "torch")
    assert command(write("1,1,torch,train.py,,,")).python == f"{prefix}/bin/python"


def test_conda_is_found_through_its_variable(write: Write, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = programs.parent.parent / "elsewhere" / "bin"
    monkeypatch.setenv("CONDA_EXE", str(fake_conda.install(elsewhere)))
    fake_conda.add(elsewhere, "torch")
    assert command(write("1,1,conda:torch,train.py,,,")).python == f"{elsewhere.parent}/envs/torch/bin/python"


@pytest.mark.parametrize("name", ["conda", "micromamba"])
def test_a_conda_environment_is_made_from_its_file(write: Write, programs: Path, name: str) -> None:
    fake_conda.install(programs, name)
    file = write("1,1,conda:torch,train.py,,,", "1,2,torch,train.py,,,")
    Path("environment.yml").write_text("name: torch\ndependencies: [python=3.11]\n")
    load(file.path, Inventory(), LISTENERS)
    said: list[str] = []
    make_environments(file, file.rows, said.append)
    assert said == [f"Making the conda environment 'torch' from {Path.cwd()}/environment.yml …", "Made in 0 s."]
    assert command_of(file, file.rows[0]).python == f"{programs.parent}/envs/torch/bin/python"


def test_a_conda_environment_that_cannot_be_made_is_said_and_removed(write: Write, programs: Path) -> None:
    fake_conda.install(programs)
    file = write("1,1,conda:torch,train.py,,,")
    Path("environment.yml").write_text("name: torch\ndependencies: [python, pytroch]\n")
    with pytest.raises(BadExperimentFile) as caught:
        make_environments(file, file.rows, lambda _: None)
    assert str(caught.value).startswith(f"{file.path}:2:5: Environment: the conda environment 'torch' from ")
    assert str(caught.value).endswith("are not available from current channels:\n  - pytroch")
    assert list((programs.parent / "envs").iterdir()) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            "1,1,conda:trch,train.py,,,",
            "2:5: Environment: there is no conda environment 'trch' (did you mean 'torch'?)",
        ),
        (
            "1,1,trch,train.py,,,",
            "2:5: Environment: bench.toml has no section [environments.trch] (did you mean 'torch2'?), and there is no con",
        ),
        ("1,1,conda:empty,train.py,,,", "2:5: Environment: the conda environment 'empty' in {envs}/empty has no bin/p"),
    ],
)
def test_conda_environments_that_are_none(write: Write, programs: Path, row: str, said: str) -> None:
    fake_conda.install(programs)
    fake_conda.add(programs, "torch")
    (programs.parent / "envs" / "empty").mkdir()
    file = write(row, toml="[environments.torch2]\n")
    Path("environment.yml").write_text("name: another\n")
    assert said.format(envs=programs.parent / "envs") in problems(file)


def test_without_conda(write: Write, programs: Path) -> None:
    file = write("1,1,conda:torch,train.py,,,")
    assert "2:5: Environment: conda is not installed: neither CONDA_EXE nor PATH leads to conda, mamba" in problems(
        file
    )
    (programs / "conda").write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    (programs / "conda").chmod(0o755)
    assert f"2:5: Environment: {programs}/conda does not list its environments: no space left" in problems(file)


def test_the_real_conda_lists_its_base() -> None:
    if not any(map(shutil.which, ("conda", "mamba", "micromamba"))):
        pytest.skip("conda is not installed")
    assert CondaEnvironment("base", Path()).problem() is None


# --- docker -----------------------------------------------------------------------------------------------------------


def start(folder: RunFolder, made: Command, gpus: tuple[str, ...] = ()) -> tuple[list[str], dict[str, str]]:
    """Return command line and variables of a container."""
    return launched(
        made,
        folder,
        shell={"HOME": "/home/me", "SHELL_ONLY": "1"},
        additions={**made.variables, "MLFLOW_TRACKING_URI": "http://me:secret@host", "DOCKER_HOST": "x", "PATH": "/x"},
        client=folder.path,
        gpus=gpus,
    )


def test_what_a_container_is_started_with(write: Write, docker: Path, tmp_path: Path) -> None:
    data = tmp_path / "data, all"
    data.mkdir()
    made = command(
        write(
            f'1,1,torch,,resnet50,"{data}",batch-size=128',
            toml=f"""
            [environments.torch]
            docker = "{IMAGE}"
            python = "python3"
            entry_point = "{{python}} /opt/train.py --model {{model}} --data {{data}}"
            mounts = ["../conda", "../conda/bin:ro"]
            variables = {{OMP_NUM_THREADS = "4", LD_PRELOAD = "/opt/jemalloc.so", DOCKER_PASSWORD = "hunter2"}}
            """,
        )
    )
    folder = RunFolder(tmp_path / "runs" / ("0a" * 16))
    folder.create({})
    words, variables = start(folder, made, ("GPU-1", "GPU-2"))
    work = Path.cwd()
    assert words == [
        *[str(docker), "run", "--rm", "--init", "--name", f"bench-{folder.run_id}", "--pull", "never"],
        *["--network", "host", "--ipc", "host", "--user", f"{os.getuid()}:{os.getgid()}"],
        *["--gpus", '"device=GPU-1,GPU-2"'],
        *["--mount", f"type=bind,source={work},target={work}"],
        *["--mount", f"type=bind,source={folder.path},target={folder.path}"],
        *["--mount", f'type=bind,"source={data}","target={data}",readonly'],
        *["--mount", f"type=bind,source={tmp_path}/conda,target={tmp_path}/conda"],
        *["--mount", f"type=bind,source={tmp_path}/conda/bin,target={tmp_path}/conda/bin,readonly"],
        *["--workdir", str(work), "--env", "HOME=/tmp", "--env", words[words.index("HOME=/tmp") + 2]],
        *["--env", "PYTHONUNBUFFERED", "--env", "OMP_NUM_THREADS"],
        *["--env", "LD_PRELOAD=/opt/jemalloc.so", "--env", "DOCKER_PASSWORD", "--env", "MLFLOW_TRACKING_URI"],
        *["--env", "DOCKER_HOST=x", "--env", "PATH=/x", "--env", "PYTHONPATH", "--env", "BENCH_RUN_ID"],
        *[IMAGE, "python3", "/opt/train.py", "--model", "resnet50", "--data", str(data), "--batch-size=128"],
    ]
    assert variables == {
        "HOME": "/home/me",
        "SHELL_ONLY": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "4",
        "DOCKER_PASSWORD": "hunter2",
        "MLFLOW_TRACKING_URI": "http://me:secret@host",
        "PYTHONPATH": str(folder.path),
    }


def test_a_container_finds_a_script_behind_a_link(write: Write, docker: Path, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "eval.py").touch()
    (tmp_path / "link").symlink_to("code")
    words, _ = start(RunFolder(tmp_path), command(write(f"1,1,docker:{IMAGE},{tmp_path}/link/eval.py,,,")))
    assert words[-1] == f"{tmp_path}/link/eval.py"
    assert f"type=bind,source={tmp_path}/link,target={tmp_path}/link" in words


def test_without_gpus_none_are_asked_for(write: Write, docker: Path, tmp_path: Path) -> None:
    words, _ = start(RunFolder(tmp_path), command(write(f"1,1,docker:{IMAGE},train.py,,,")))
    assert "--gpus" not in words
    assert words[-3:] == [IMAGE, "python", f"{Path.cwd()}/train.py"]


def test_docker_itself_knows_every_flag(tmp_path: Path) -> None:
    program = shutil.which("docker")
    if program is None:
        pytest.skip("docker is not installed")
    container = Container(program, IMAGE, (Mount(tmp_path / "a, b", read_only=True),))
    made = Command(("true",), tmp_path, {"A": "b"}, container=container)
    words, variables = start(RunFolder(tmp_path), made, ("GPU-1", "GPU-2"))
    nobody = {**variables, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock", "PATH": os.environ["PATH"]}
    done = subprocess.run(words, env=nobody, capture_output=True, text=True, check=False)
    assert "the Docker daemon at unix://" in done.stderr  # flags are looked at first


@pytest.mark.parametrize(
    ("row", "toml", "said"),
    [
        (
            "1,1,docker:nothing,train.py,,,",
            "",
            "2:5: Environment: there is no image 'nothing' on this host; `docker pull",
        ),
        (
            "1,1,x,train.py,,,",
            f"[environments.x]\ndocker = '{IMAGE}'\nmounts = ['gone']",
            "2:5: Environment: {work}/gone is to be mounted, but does not exist",
        ),
    ],
)
def test_containers_that_cannot_be(write: Write, docker: Path, row: str, toml: str, said: str) -> None:
    assert said.format(work=Path.cwd()) in problems(write(row, toml=toml))


def test_without_docker(write: Write, programs: Path) -> None:
    file = write(f"1,1,docker:{IMAGE},train.py,,,")
    assert "2:5: Environment: docker is not installed: PATH does not lead to it" in problems(file)
    fake_docker.install(programs, IMAGE)
    assert "2:5: Environment: docker cannot be used: Cannot connect to the Docker daemon at unix:///" in problems(file)


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


def test_a_named_environment_is_where_bench_toml_says(write: Write, tmp_path: Path) -> None:
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
    ("row", "toml", "said"),
    [
        ("1,1,torch,,r50,,", "", "2:13: Model: a model needs an entry point: define entry_point in the section [environments.torch] of b"),
        ("1,1,torch,,r50,,", "[environments.torch]", "2:11: Model: a model needs an entry point: define entry_point in"),
        ("1,1,-,,r50,,", "", "2:8: Model: a model needs an entry point: define entry_point in the section [environments.NAME] of"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} {modle}'", "entry_point has a place {modle} (did you mean 'model'?)"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} {'", "entry_point cannot be read: "),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = ''", "entry_point is empty"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = '{python} trian.py'", "the script 'trian.py' does not exist in {work} (did you mean 'train.py'?)"),
        ("1,1,torch,,r50,,", "[environments.torch]\nentry_point = 'torchrnu x'", "there is no program 'torchrnu' in PATH"),
        ("1,1,torch,train.py,,,", "[environments.torch]\ndirectory = 'gone'", "[environments.torch]: there is no folder {work}/gone"),
        ("1,1,torch,train.py,,,", "[environments.torch]\npython = '/gone/python'", "2:5: Environment: there is no interpreter /gone/python"),
        ("1,1,-,train.py,,/d,", "", "2:19: Data: data is for a model's entry point, and this row has a script"),
    ],
)  # fmt: skip
def test_entry_points_that_are_none(write: Write, row: str, toml: str, said: str) -> None:
    found = problems(write(row, toml=toml))
    assert said.partition(": ")[2].format(work=Path.cwd()) in found
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
    """An MLflow project in the working directory's folder ``project``."""
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
    ("content", "params", "said"),
    [
        (PROJECT, "alpha=1", "No value given for missing parameters: 'data'"),
        (PROJECT, "data=x --fast", "the parameter '--fast' of a project has no value"),
        (PROJECT, "x", "'x' is no parameter of a project: write name=value"),
        ("entry_points: {other: {command: x}}\n", "", "Could not find main among entry points ['other']"),
        ("entry_points: [\n", "", "MLflow cannot read the project: "),
    ],
)
def test_projects_that_cannot_be_run(write: Write, project: Path, content: str, params: str, said: str) -> None:
    (project / "MLproject").write_text(content)
    assert f"Params: {said}" in problems(write(f"1,1,-,project,,,{params}")).replace(f"{project}: ", "")


def test_a_folder_that_is_no_project(write: Write) -> None:
    Path("empty").mkdir()
    assert "2:7: File: the script 'empty' is a folder, and has no file MLproject" in problems(write("1,1,-,empty,,,"))


def test_what_is_no_string_is_refused_where_it_stands(write: Write) -> None:
    with pytest.raises(BadRequest, match=r"\[environments\.x\]: mounts must be a list of strings"):
        problems(write("1,1,x,train.py,,,", toml="[environments.x]\nmounts = 'a'\n"))
