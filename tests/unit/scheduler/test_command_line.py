"""Jobs of ``bench run``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import inventory
from hypergauge.scheduler.requests.command_line import command_line_job
from tests.support.fakes.profilers import installed_profilers

GPUS = inventory("2xH100")


@pytest.mark.parametrize(("devices", "expected"), [(None, None), ("", ()), ("1", (1,)), ("0+1", (0, 1))])
def test_devices_of_a_command(devices: str | None, expected: tuple[int, ...] | None) -> None:
    job = command_line_job(["python", "train.py", "--lr", "0.1"], GPUS, devices=devices)
    assert (None if job.devices is None else tuple(gpu.index for gpu in job.devices)) == expected
    assert (job.name, job.params["lr"]) == ("train", "0.1")


def test_its_name_and_its_collocation() -> None:
    job = command_line_job(["true"], GPUS, name="mine", devices="0", collocation="MPS:50")
    assert (job.name, str(job.collocation)) == ("mine", "MPS:50")


@pytest.mark.parametrize(
    ("devices", "collocation", "names"),
    [
        ("2", "-", "2"),
        (None, "MPS", "--devices"),
        ("", "MPS", "--devices"),
        ("0+1", "3g.40gb", "--collocation"),
        ("0", "9g.80gb", "9g.80gb"),
    ],
)
def test_what_does_not_fit_is_refused(devices: str | None, collocation: str, names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        command_line_job(["true"], GPUS, devices=devices, collocation=collocation)


@pytest.mark.parametrize(
    ("command", "listeners", "names"),
    [
        ("python train.py", "nsyss", "there is no exporter 'nsyss'.*did you mean 'nsys'"),
        ("python train.py", "host@1ms", "must lie between 100 ms and 60 s"),
        ("python train.py", "rapl@1s", "the exporter 'rapl' cannot work here: no counters"),
        ("python train.py", "nsys+ncu", "exclude each other"),
        ("python -c pass", "torch", "torch wraps a Python script"),
        ("./train.sh", "torch", "torch wraps a Python script"),
    ],
)
def test_listeners_that_cannot_be_used_are_refused(
    command: str, listeners: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed_profilers(tmp_path / "bin", *listeners.split("+"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BadRequest, match=names):
        command_line_job(command.split(), GPUS, listeners=listeners, exporters={"host": None, "rapl": "no counters"})


def test_a_command_in_a_virtual_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its interpreter is the environment's, as is a program that only the environment has."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.chdir(tmp_path)
    job = command_line_job(["python3", "train.py", "--token", "x"], GPUS, environment="venv:env")
    assert job.command.words == (str(python), "train.py", "--token", "x")
    assert (job.shown_command, job.environment) == ("python3 train.py --token '***'", "venv:env")
    assert job.command.variables["PATH"].startswith(f"{python.parent}{os.pathsep}")
    assert command_line_job(["torchrun", "x"], GPUS, environment="venv:env").command.words == ("torchrun", "x")


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ("venv:none", "there is no virtual environment in .*/none"),
        ("vemv:env", "unknown kind of environment 'vemv'.*did you mean 'venv'"),
        ("nowhere", r"bench.toml has no section \[environments.nowhere\]"),
    ],
)
def test_an_environment_that_cannot_be_used_is_refused(
    environment: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequest, match=names):
        command_line_job(["true"], GPUS, environment=environment)
