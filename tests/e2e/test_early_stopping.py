"""Early stopping by a rule on the validation loss that the script logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.home import SCRIPTS, Home

pytestmark = pytest.mark.slow


def test_a_run_that_no_longer_improves_is_stopped(home: Home, tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(
        "[rules]\nevery = '1 s'\n[rules.Overtraining]\npatience_train = 2\npatience_validation = 3\nactions = ['stop-run']\n"
    )
    own = Home(home.path, tmp_path)
    sheet = own.sheet("early", "Experiment,Workload,Name,File", [f"118,1,overtrained,{SCRIPTS}/overtrained.py"])
    own.start("schedule", sheet.path).wait(1)
    [run] = own.runs(118)
    assert run["status"] == "stopped"
    assert run["reason"].startswith("stopped by the rule Overtraining: ")
    assert "lowest 1, best step 5" in run["reason"]
    assert run["duration"] < 600
    [firing] = own.query("select evidence from rule_firings where run_id = %s and rule = 'Overtraining'", run["run_id"])
    assert firing["evidence"]["best_step"] == 5
    own.end()
