"""Trainings of frameworks that callbacks follow, from the script to the database."""

from __future__ import annotations

import pytest

from tests.support.home import Home
from tests.support.interpreters import needs
from tests.support.trainings import MODULES, SCRIPTS


@pytest.mark.slow
@needs(*MODULES["sklearn"])
def test_an_estimator_has_phases_and_steps(home: Home) -> None:
    (home.folder / "estimator.py").write_text(SCRIPTS["sklearn"])
    sheet = home.sheet("frameworks", "Experiment,Workload,Name,File", [f"127,1,sklearn,{home.folder / 'estimator.py'}"])
    home.bench("schedule", sheet.path)
    [run] = home.runs(127)
    assert (run["status"], run["exit_code"]) == ("finished", 0)
    spans = home.query(
        """
        select s.name, s.kind, s.step, p.name as parent, s.ended_at is not null as ended
        from spans s left join spans p on p.run_id = s.run_id and p.span_id = s.parent_id
        where s.run_id = %s order by s.started_at, s.kind
        """,
        run["run_id"],
    )
    assert [one["name"] for one in spans if one["kind"] == "phase"] == ["train", "evaluate", "train", "train"]
    assert [one["step"] for one in spans if one["kind"] == "step"] == list(range(8))
    assert {one["parent"] for one in spans if one["kind"] == "step"} == {"train"}
    assert all(one["ended"] for one in spans)
