"""Environments of experiment files: the command of a row, and refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Gpu, Inventory
from hypergauge.gpu.vendors import VisibleGpu
from hypergauge.scheduler.environments import CondaEnvironment
from hypergauge.scheduler.environments.containers import Container, Mount
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile
from hypergauge.scheduler.launch.commands import command_of, make_environments
from hypergauge.scheduler.launch.launch import Command, launched
from hypergauge.scheduler.plan.checks import load
from tests.support.data.rows import LISTENERS, Write, command, problems
from tests.support.fakes import conda as fake_conda
from tests.support.fakes import docker as fake_docker

AMD = VisibleGpu("amd", "GPU-9f444a2fb30adeb0", ("/dev/kfd", "/dev/dri/renderD185"))
IMAGE = "nvcr.io/nvidia/pytorch:25.01-py3"


@pytest.fixture
def docker(programs: Path) -> Iterator[Path]:
    """Yield Docker's program, with a running daemon."""
    program = fake_docker.install(programs, IMAGE)
    with fake_docker.daemon(program):
        yield program


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
    messages: list[str] = []
    make_environments(file, file.rows, messages.append)
    making, made = messages
    assert making == f"Making the conda environment 'torch' from {Path.cwd()}/environment.yml …"
    assert re.fullmatch(r"Made in \d+ s\.", made)
    assert command_of(file, file.rows[0]).python == f"{programs.parent}/envs/torch/bin/python"


def test_a_conda_environment_that_cannot_be_made_is_reported_and_removed(write: Write, programs: Path) -> None:
    fake_conda.install(programs)
    file = write("1,1,conda:torch,train.py,,,")
    Path("environment.yml").write_text("name: torch\ndependencies: [python, pytroch]\n")
    with pytest.raises(BadExperimentFile) as caught:
        make_environments(file, file.rows, lambda _: None)
    assert str(caught.value).startswith(f"{file.path}:2:5: Environment: the conda environment 'torch' from ")
    assert str(caught.value).endswith("are not available from current channels:\n  - pytroch")
    assert list((programs.parent / "envs").iterdir()) == []


@pytest.mark.parametrize(
    ("row", "expected"),
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
def test_conda_environments_that_are_none(write: Write, programs: Path, row: str, expected: str) -> None:
    fake_conda.install(programs)
    fake_conda.add(programs, "torch")
    (programs.parent / "envs" / "empty").mkdir()
    file = write(row, toml="[environments.torch2]\n")
    Path("environment.yml").write_text("name: another\n")
    assert expected.format(envs=programs.parent / "envs") in problems(file)


def test_without_conda(write: Write, programs: Path) -> None:
    file = write("1,1,conda:torch,train.py,,,")
    assert "2:5: Environment: conda is not installed: neither CONDA_EXE nor PATH has conda, mamba" in problems(file)
    (programs / "conda").write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    (programs / "conda").chmod(0o755)
    assert f"2:5: Environment: {programs}/conda does not list its environments: no space left" in problems(file)


def test_the_real_conda_lists_its_base() -> None:
    if not any(map(shutil.which, ("conda", "mamba", "micromamba"))):
        pytest.skip("conda is not installed")
    assert CondaEnvironment("base", Path()).problem() is None


# --- docker -----------------------------------------------------------------------------------------------------------


def start(folder: RunFolder, made: Command, gpus: tuple[VisibleGpu, ...] = ()) -> tuple[list[str], dict[str, str]]:
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
    words, variables = start(folder, made, (VisibleGpu("nvidia", "GPU-1"), VisibleGpu("nvidia", "GPU-2")))
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


def test_a_container_gets_the_standard_input_of_its_run(write: Write, docker: Path, tmp_path: Path) -> None:
    made = command(write(f"1,1,docker:{IMAGE},train.py,,,"))
    inputs = [
        launched(made, RunFolder(tmp_path), shell={}, additions={}, client=tmp_path, gpus=(), with_input=with_input)[0]
        for with_input in (False, True)
    ]
    assert ["--interactive" in words for words in inputs] == [False, True]


def test_a_container_finds_a_script_behind_a_link(write: Write, docker: Path, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "eval.py").touch()
    (tmp_path / "link").symlink_to("code")
    words, _ = start(RunFolder(tmp_path), command(write(f"1,1,docker:{IMAGE},{tmp_path}/link/eval.py,,,")))
    assert words[-1] == f"{tmp_path}/link/eval.py"
    assert f"type=bind,source={tmp_path}/link,target={tmp_path}/link" in words


def test_a_container_has_the_device_files_of_amds_gpus_and_their_groups(
    write: Write, docker: Path, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("kfd", "renderD177", "renderD185")]
    for file in files:
        file.touch()
    first, second = (VisibleGpu("amd", f"GPU-{n}", (str(files[0]), str(files[n]))) for n in (1, 2))
    words, _ = start(RunFolder(tmp_path), command(write(f"1,1,docker:{IMAGE},train.py,,,")), (first, second))
    devices = [word for file in files for word in ("--device", str(file))]
    at = words.index("--device")
    assert words[at : at + 8] == [*devices, "--group-add", str(os.getgid())]
    assert words.count("--device") == len(files)
    assert "--gpus" not in words


def test_a_container_on_a_jetson_has_its_runtime(write: Write, docker: Path, tmp_path: Path) -> None:
    made = command(write(f"1,1,docker:{IMAGE},train.py,,,"))
    words, _ = start(RunFolder(tmp_path), made, (VisibleGpu("jetson", "0"),))
    assert words[words.index("--runtime") + 1] == "nvidia"


def test_no_container_has_apples_gpu(write: Write, docker: Path) -> None:
    gpus = Inventory((Gpu(0, "APPLE-mac1", "Apple silicon", 2**34, vendor="apple", runtime_id="0"),))
    path = write(f"1,1,docker:{IMAGE},train.py,,,").path
    path.write_text(path.read_text().replace("Experiment,", "Devices,Experiment,").replace("\n1,1", "\n0,1,1"))
    with pytest.raises(BadExperimentFile) as caught:
        load(path, gpus, dict.fromkeys(LISTENERS))
    assert "2:7: Environment: a container cannot use Apple's GPU" in str(caught.value)


def test_without_gpus_none_are_requested(write: Write, docker: Path, tmp_path: Path) -> None:
    words, _ = start(RunFolder(tmp_path), command(write(f"1,1,docker:{IMAGE},train.py,,,")))
    assert "--gpus" not in words
    assert words[-3:] == [IMAGE, "python", f"{Path.cwd()}/train.py"]


@pytest.mark.parametrize(
    ("gpu", "refusal"),
    [
        (VisibleGpu("nvidia", "GPU-1"), "the Docker daemon at unix://"),  # Docker checks flags first
        (VisibleGpu("jetson", "0"), "the Docker daemon at unix://"),
        (AMD, "unknown server OS"),  # the form of a device depends on it
    ],
)
def test_docker_itself_knows_every_flag(tmp_path: Path, gpu: VisibleGpu, refusal: str) -> None:
    program = shutil.which("docker")
    if program is None:
        pytest.skip("docker is not installed")
    container = Container(program, IMAGE, (Mount(tmp_path / "a, b", read_only=True),))
    made = Command(("true",), tmp_path, {"A": "b"}, container=container)
    words, variables = start(RunFolder(tmp_path), made, (gpu,))
    unreachable = {**variables, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock", "PATH": os.environ["PATH"]}
    done = subprocess.run(words, env=unreachable, capture_output=True, text=True, check=False)
    assert refusal in done.stderr


@pytest.mark.parametrize(
    ("row", "toml", "expected"),
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
def test_containers_that_cannot_be(write: Write, docker: Path, row: str, toml: str, expected: str) -> None:
    assert expected.format(work=Path.cwd()) in problems(write(row, toml=toml))


def test_without_docker(write: Write, programs: Path) -> None:
    file = write(f"1,1,docker:{IMAGE},train.py,,,")
    assert "2:5: Environment: docker is not installed: it is not on PATH" in problems(file)
    fake_docker.install(programs, IMAGE)
    assert "2:5: Environment: docker cannot be used: Cannot connect to the Docker daemon at unix:///" in problems(file)
