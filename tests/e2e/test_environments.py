"""What a run finds in its interpreter: its own packages, the client, none of ours, and MLflow without a change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.home import Home

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
    _, said = installing.communicate()
    if installing.returncode != 0:
        pytest.skip(f"{SKINNY} cannot be had from a package index: {said.strip().splitlines()[-1]}")
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


def figures(home: Home, run: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Return the software metrics of a run as the database has them."""
    found = home.ask("select * from software_metrics where run_id = %s order by key, step", run["run_id"])
    return [(one["key"], one["step"], one["value"]) for one in found]


def test_a_run_sees_the_client_alone_of_us(home: Home, here: dict[str, dict[str, Any]]) -> None:
    said = home.output(here["isolated"]["run_id"]).decode().splitlines()
    assert (said[0], said[2]) == (f"python {sys.prefix}", "sees []")
    assert figures(home, here["isolated"]) == [("accuracy", 1, 0.75)]


def test_a_run_sees_the_client_alone_of_us_in_another_environment(
    home: Home, there: dict[str, dict[str, Any]], environment: Path
) -> None:
    said = home.output(there["isolated"]["run_id"]).decode().splitlines()
    assert said[:3] == [f"python {environment}", f"mlflow {SKINNY.partition('==')[2]}", "sees []"]
    assert figures(home, there["isolated"]) == [("accuracy", 1, 0.75)]


@pytest.mark.parametrize("interpreter", ["here", "there"])
def test_a_script_gets_its_own_modules_and_the_client(
    home: Home, interpreter: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(interpreter)["own modules"]
    assert (run["status"], home.output(run["run_id"])) == ("finished", b"the user's own modules\n")
    assert home.ask("select name from spans where run_id = %s", run["run_id"]) == [{"name": "own"}]


def test_a_script_that_sets_its_experiment_needs_no_change(home: Home, here: dict[str, dict[str, Any]]) -> None:
    run = here["own experiment"]
    # Both of its runs count; the nested one, a candidate of a search, does not.
    losses = [("loss", step, pytest.approx(1 / (1 + step))) for step in range(3)]
    assert (run["status"], run["reason"]) == ("finished", None)
    assert figures(home, run) == [*losses, ("test_accuracy", 0, 0.5)]
    own = home.mlflow_run(home.output(run["run_id"]).decode().split()[-1])
    assert (own["params"], own["tags"]["hypergauge.run_id"]) == ({"depth": "3"}, run["run_id"])


def test_autologging_needs_no_change(home: Home, here: dict[str, dict[str, Any]]) -> None:
    logged = {key: value for key, _, value in figures(home, here["autologged"])}
    assert logged["training_accuracy_score"] == 1.0
