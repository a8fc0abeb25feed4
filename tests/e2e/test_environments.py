"""The interpreter of a run: its own packages, the client, MLflow without a change, and nothing else of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NewFolder
from tests.support.fakes import conda as fake_conda
from tests.support.fakes import docker as fake_docker
from tests.support.fakes.profilers import installed_profilers
from tests.support.home import SCRIPTS, Home, processes_of
from tests.support.interpreters import needs, python_with
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

IMAGE = "pytorch:25.01"
SKINNY = "mlflow-skinny==3.4.0"  # another version than ours


@pytest.fixture(scope="module")
def installation(home: Home) -> tuple[Path, subprocess.Popen[str]]:
    """A virtual environment that is being filled, while others use the time."""
    folder = home.folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", SKINNY]
    return folder, subprocess.Popen(install, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def environment(installation: tuple[Path, subprocess.Popen[str]]) -> Path:
    """A virtual environment that has MLflow's client in another version, and nothing of ours."""
    folder, installing = installation
    _, printed = installing.communicate()
    if installing.returncode != 0:
        pytest.skip(f"{SKINNY} cannot be had from a package index: {printed.strip().splitlines()[-1]}")
    return folder


def scheduled(home: Home, experiment: int, *rows: str) -> dict[str, dict[str, Any]]:
    """Run rows of name, environment and script side by side, and return their runs by name."""
    header = "Experiment,Workload,Name,Environment,File"
    sheet = home.sheet(f"environments-{experiment}", header, [f"{experiment},1,{row}" for row in rows])
    home.bench("schedule", sheet.path)
    return {run["name"]: run for run in home.runs(experiment)}


@pytest.fixture(scope="module")
def here(home: Home, installation: object) -> dict[str, dict[str, Any]]:
    """Runs in this interpreter."""
    return scheduled(
        home,
        31,
        "isolated,-,{scripts}/isolated.py",
        "own modules,-,{scripts}/own_modules/probe.py",
        "own experiment,-,{scripts}/own_experiment.py",
        "autologged,-,{scripts}/autologged.py",
    )


@pytest.fixture(scope="module")
def there(home: Home, environment: Path) -> dict[str, dict[str, Any]]:
    """Runs in the other environment."""
    return scheduled(
        home,
        32,
        f"isolated,venv:{environment},{{scripts}}/isolated.py",
        f"own modules,venv:{environment},{{scripts}}/own_modules/probe.py",
    )


def metrics(home: Home, run: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Return the software metrics of a run as the database has them."""
    found = home.query("select * from software_metrics where run_id = %s order by key, step", run["run_id"])
    return [(one["key"], one["step"], one["value"]) for one in found]


def test_a_run_sees_the_client_alone_of_us(home: Home, here: dict[str, dict[str, Any]]) -> None:
    printed = home.output(here["isolated"]["run_id"]).decode().splitlines()
    assert (printed[0], printed[2]) == (f"python {sys.prefix}", "sees []")
    assert metrics(home, here["isolated"]) == [("accuracy", 1, 0.75)]


def test_a_run_sees_the_client_alone_of_us_in_another_environment(
    home: Home, there: dict[str, dict[str, Any]], environment: Path
) -> None:
    printed = home.output(there["isolated"]["run_id"]).decode().splitlines()
    assert printed[:3] == [f"python {environment}", f"mlflow {SKINNY.partition('==')[2]}", "sees []"]
    assert metrics(home, there["isolated"]) == [("accuracy", 1, 0.75)]


def test_a_command_runs_in_another_environment_and_is_repeated_there(home: Home, environment: Path) -> None:
    script = ("import sys; print(sys.prefix)",)
    home.bench("run", "--environment", f"venv:{environment}", "--name", "abroad", "--", "python", "-c", *script)
    [run] = [one for one in home.runs(1_000_000) if one["name"] == "abroad"]
    home.bench("schedule", "--from-run", run["run_id"])
    runs = [one for one in home.runs(1_000_000) if one["name"] == "abroad"]
    assert [home.output(one["run_id"]).decode().strip() for one in runs] == [str(environment)] * 2


@pytest.mark.parametrize("interpreter", ["here", "there"])
def test_a_script_gets_its_own_modules_and_the_client(
    home: Home, interpreter: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(interpreter)["own modules"]
    assert (run["status"], home.output(run["run_id"])) == ("finished", b"the user's own modules\n")
    assert home.query("select name from spans where run_id = %s", run["run_id"]) == [{"name": "own"}]


def test_a_script_that_sets_its_experiment_needs_no_change(home: Home, here: dict[str, dict[str, Any]]) -> None:
    run = here["own experiment"]
    # Both of its runs count; the nested one, a candidate of a search, does not.
    losses = [("loss", step, pytest.approx(1 / (1 + step))) for step in range(3)]
    assert (run["status"], run["reason"]) == ("finished", None)
    assert metrics(home, run) == [*losses, ("test_accuracy", 0, 0.5)]
    own = home.mlflow_run(home.output(run["run_id"]).decode().split()[-1])
    assert (own["params"], own["tags"]["hypergauge.run_id"]) == ({"depth": "3"}, run["run_id"])


def test_autologging_needs_no_change(home: Home, here: dict[str, dict[str, Any]]) -> None:
    logged = {key: value for key, _, value in metrics(home, here["autologged"])}
    assert logged["training_accuracy_score"] == 1.0


# --- conda and docker -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def equipped(home: Home, new_folder: NewFolder) -> Iterator[Home]:
    """The same home, for a shell that finds conda and docker."""
    programs = new_folder() / "conda" / "bin"
    fake_conda.install(programs)
    with fake_docker.daemon(fake_docker.install(programs, IMAGE)):
        variables = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "CONDA_EXE": "", "ONLY_IN_THE_SHELL": "1"}
        folder = home.folder / "equipped"
        folder.mkdir()
        (folder / "environment.yml").write_text("name: torch\ndependencies: [python]\n")
        yield Home(home.path, folder, variables)


@pytest.fixture(scope="module")
def elsewhere(equipped: Home) -> dict[str, dict[str, Any]]:
    """Runs in a conda environment that is made for them, and in a container."""
    sheet = equipped.sheet(
        "elsewhere",
        "Experiment,Workload,Name,Environment,File,Params",
        [
            "33,1,conda,torch,{scripts}/surroundings.py,--lr 0.1",
            f"33,1,docker,docker:{IMAGE},{{scripts}}/surroundings.py,--lr 0.1 --token hunter2",
        ],
    )
    printed = equipped.bench("schedule", sheet.path)
    assert f"{equipped.folder}/environment.yml" in printed
    return {run["name"]: run for run in equipped.runs(33)}


def test_a_command_runs_in_a_container(equipped: Home, elsewhere: object) -> None:
    inside = (SCRIPTS / "surroundings.py", "--lr", "0.2")
    equipped.bench("run", "--environment", f"docker:{IMAGE}", "--name", "boxed", "--", "python", *map(str, inside))
    [run] = [one for one in equipped.runs(1_000_000) if one["name"] == "boxed"]
    found = surroundings(equipped, run)
    assert found["arguments"] == ["--lr", "0.2"]
    assert "ONLY_IN_THE_SHELL" not in found["variables"]


def surroundings(home: Home, run: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a run about its environment."""
    assert (run["status"], run["reason"]) == ("finished", None)
    assert home.query("select name from spans where run_id = %s", run["run_id"]) == [{"name": "inside"}]
    found: dict[str, Any] = json.loads(home.output(run["run_id"]).splitlines()[0])
    return found


def test_a_run_in_a_conda_environment(equipped: Home, elsewhere: dict[str, dict[str, Any]]) -> None:
    found = surroundings(equipped, elsewhere["conda"])
    programs, *_ = equipped.variables["PATH"].split(os.pathsep)
    prefix = str(Path(programs).parent / "envs" / "torch")
    assert found["python"] == f"{prefix}/bin/python"
    assert (found["variables"]["CONDA_PREFIX"], found["variables"]["ONLY_IN_THE_SHELL"]) == (prefix, "1")


def test_a_run_in_a_container(equipped: Home, elsewhere: dict[str, dict[str, Any]]) -> None:
    run = elsewhere["docker"]
    found = surroundings(equipped, run)
    assert (found["arguments"], found["folder"]) == (["--lr", "0.1", "--token", "hunter2"], str(equipped.folder))
    variables = found["variables"]
    assert "ONLY_IN_THE_SHELL" not in variables
    assert (variables["BENCH_RUN_ID"], variables["MLFLOW_RUN_ID"]) == (run["run_id"], run["mlflow_run_id"])
    # It was measured by what its own processes used, which are not the supervisor's children.
    wait_for(
        lambda: equipped.query(
            "select from run_summary where run_id = %s and quantity = 'cpu_usage' and scope = 'process' and total > 0.3",
            run["run_id"],
        ),
        "its CPU time",
    )


def test_a_container_ends_with_its_run(equipped: Home, elsewhere: object) -> None:
    row = f"34,1,docker:{IMAGE},{{scripts}}/gate.py,{equipped.folder}/never --deaf --grandchild"
    sheet = equipped.sheet("stopped", "Experiment,Workload,Environment,File,Params", [row])
    going = equipped.start("schedule", sheet.path)
    [run] = equipped.running(34)
    inside = [process for process in processes_of(run["run_id"]) if "gate.py" in " ".join(process.cmdline()[:2])]
    assert len(inside) == 2
    equipped.bench("stop", "34")
    going.wait(status=1)
    assert not any(process.is_running() for process in inside)
    assert [one["status"] for one in equipped.runs(34)] == ["stopped"]
    removed = subprocess.run(
        ["docker", "rm", "--force", f"bench-{run['run_id']}"], env=equipped.environment, capture_output=True, check=True
    )
    assert b"No such container" in removed.stderr


def test_a_run_in_a_container_is_profiled(equipped: Home, elsewhere: object, tmp_path: Path) -> None:
    programs = installed_profilers(tmp_path / "nsight" / "bin", "nsys")
    variables = {**equipped.variables, "PATH": f"{programs}{os.pathsep}{equipped.variables['PATH']}"}
    home = Home(equipped.path, equipped.folder, variables)
    gate = tmp_path / "gate"
    busy = equipped.folder / "busy.py"
    busy.write_text(
        "import pathlib, sys\nprint('at the gate')\ndef spin():\n    while not pathlib.Path(sys.argv[1]).exists():\n        sum(range(9999))\nspin()\n"
    )
    header = "Experiment,Workload,Name,Environment,File,Listeners,Params"
    kinds = [f"133,1,sampled,docker:{IMAGE},{busy},py-spy,{gate}", f"133,1,traced,docker:{IMAGE},{busy},nsys,{gate}"]
    sheet = home.sheet("profiled", header, kinds)
    going = home.start("schedule", sheet.path)
    sampled, traced = home.running(133, 2)
    for run in (sampled, traced):
        wait_for(lambda run=run: busy_processes(run, busy), "its script")  # type: ignore[misc]
    home.bench("stop", "133/1/1")  # its profiler writes what it has
    gate.touch()
    going.wait(status=1)
    assert [one["status"] for one in home.runs(133)] == ["stopped", "finished"]
    assert not [process for run in (sampled, traced) for process in processes_of(run["run_id"])]
    [profile] = home.json("profile", "133/1/1")
    assert {"spin (busy.py:3)"} <= {one["name"] for one in profile["entries"]}
    [profile] = home.json("profile", "133/1/2")
    assert {one["name"] for one in profile["entries"] if one["kind"] == "kernel"} == {"void gemm<float>(float*)"}


def busy_processes(run: dict[str, Any], script: Path) -> list[Any]:
    """Return the processes of a run that execute a script for long enough to be sampled."""
    return [
        process
        for process in processes_of(run["run_id"])
        if process.cmdline()[1:2] == [str(script)] and process.cpu_times().user > 0.5
    ]


@needs("torch")
@pytest.mark.parametrize("environment", ["-", "conda:torch", f"docker:{IMAGE}"])
def test_a_model_is_watched_where_our_package_is_not(equipped: Home, elsewhere: object, environment: str) -> None:
    """The interpreter with PyTorch has nothing of ours, and none of our modules but the client."""
    words = (python_with("torch") or "", str(SCRIPTS.parent / "trainings" / "healthy.py"), "0")
    equipped.bench("run", "--environment", environment, "--name", f"watched {environment}", "--", *words)
    [run] = [one for one in equipped.runs(1_000_000) if one["name"] == f"watched {environment}"]
    assert (run["status"], run["reason"]) == ("finished", None)
    [found] = equipped.query(
        """
        select (select count(distinct collection) from tensor_stats where run_id = r.run_id)::integer as collections,
               (select count(*) from spans where run_id = r.run_id and kind = 'step')::integer as steps,
               (select count(*) from bench_internal.tensor_problems where run_id = r.run_id)::integer as problems
        from runs r where run_id = %s
        """,
        run["run_id"],
    )
    assert found == {"collections": 5, "steps": 288, "problems": 0}


# --- the manifest -------------------------------------------------------------------------------------------------------


def test_a_run_keeps_its_manifest(equipped: Home, elsewhere: dict[str, dict[str, Any]]) -> None:
    run = elsewhere["docker"]
    manifest = json.loads(equipped.artifact(run["mlflow_run_id"], "manifest.json"))
    assert (manifest["image"], manifest["command"]) == (
        IMAGE,
        f"python {SCRIPTS}/surroundings.py --lr 0.1 --token '***'",
    )
    assert manifest["hardware"]["kernel"].startswith("Linux ")
    assert b"\npytest==" in equipped.artifact(run["mlflow_run_id"], "requirements.lock")


def test_a_run_is_repeated_from_its_manifest(equipped: Home, elsewhere: dict[str, dict[str, Any]]) -> None:
    sheet = equipped.folder / "elsewhere.csv"
    before = sheet.read_bytes()
    label = f"33/1/{elsewhere['conda']['position']}"
    printed = equipped.bench("schedule", "--from-run", label)
    assert "shared its workload with 1 other run" in printed
    again = equipped.runs(33)[elsewhere["conda"]["position"]]
    assert (again["attempt"], again["status"], again["command"]) == (2, "finished", elsewhere["conda"]["command"])
    assert surroundings(equipped, again)["arguments"] == ["--lr", "0.1"]
    assert sheet.read_bytes() == before
    assert "a parameter that looks secret" in equipped.bench("schedule", "--from-run", "33/1/2", status=2)
