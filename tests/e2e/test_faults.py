"""The campaign of faults, in short: each kind at most once, without a finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.quiet]

SEED = 11


@pytest.mark.parametrize("options", [[], ["--embedded"]], ids=["a server of its own", "embedded servers"])
def test_a_short_campaign_finds_nothing(options: list[str]) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "faults",
        "--minutes",
        "1.5",
        "--seed",
        str(SEED),
        "--json",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=others, check=False)
    values = json.loads(done.stdout)
    found = [what for name, what in values.items() if name.startswith("finding_")]
    # How exactly a run's duration is known depends on what else the machine does.
    assert [what for what in found if " s more than inside it" not in what] == [], done.stderr
    assert values["answers_twice"] == values["processes_left"] == values["wrong_runs"] == 0
    assert values["runs"] > 0
    assert values["answers_stored"] > 0
