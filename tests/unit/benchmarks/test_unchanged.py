"""Comparison of a script's runs with and without hypergauge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.compatibility.data import MAKERS
from benchmarks.compatibility.unchanged import Outcome, Watch, differences, scripts
from hypergauge.core.errors import BadRequest


def _outcome(status: int = 0, *lines: str, **files: bytes) -> Outcome:
    return Outcome(status, Counter(lines), files)


def test_equal_runs_have_no_differences() -> None:
    plain = _outcome(0, "loss 1", "loss 1", model=b"1")
    assert list(differences([plain, plain], [_outcome(0, "loss 1", "loss 1", "run started", model=b"1")])) == []


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (_outcome(1, "loss 1", "loss 1", model=b"1"), "exit status 1 for 0"),
        (_outcome(0, "loss 1", "loss 2", model=b"1"), "1 lines missing or different, such as 'loss 1'"),
        (_outcome(0, "loss 1", "loss 1", model=b"2"), "model differs"),
        (_outcome(0, "loss 1", "loss 1"), "model is missing"),
    ],
)
def test_each_kind_of_difference_is_named(measured: Outcome, text: str) -> None:
    plain = _outcome(0, "loss 1", "loss 1", model=b"1")
    assert list(differences([plain, plain], [measured])) == [text]


def test_lines_and_files_that_differ_without_hypergauge_do_not_count() -> None:
    first, second = _outcome(0, "took 1 s", log=b"1"), _outcome(0, "took 2 s", log=b"2")
    assert list(differences([first, second], [_outcome(0, "took 3 s", log=b"3")])) == []


def test_a_third_plain_run_shows_what_two_had_in_common_by_chance() -> None:
    plain = [_outcome(0, "loss 1", f"took {seconds} s") for seconds in (1, 1, 2)]
    assert list(differences(plain[:2], plain[2:])) == ["1 lines missing or different, such as 'took 1 s'"]
    assert list(differences(plain, [_outcome(0, "loss 1", "took 3 s")])) == []
    assert list(differences(plain, [_outcome(0, "took 1 s")])) == ["1 lines missing or different, such as 'loss 1'"]


def test_what_one_of_two_measured_runs_has_is_no_difference_but_its_exit_status_is() -> None:
    plain = _outcome(0, "by rows", model=b"1")
    measured = [_outcome(0, "by columns", model=b"1"), _outcome(0, "by rows", model=b"2")]
    assert list(differences([plain, plain], measured)) == []
    crashed = _outcome(1, "by rows", model=b"1")
    assert list(differences([plain, plain], [*measured, crashed])) == ["exit status 1 for 0"]


def test_the_line_follows_a_call_over_several_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("# A smile :(\ndef main():\n    model = Net(\n        4,\n    )\n    train(model)\n")
    Watch(line="track.watch(model)", after="model = Net(").insert(script)
    lines = script.read_text().splitlines()
    assert lines[5] == "    from hypergauge import track; track.watch(model)"
    assert lines[6] == "    train(model)"


def test_a_script_of_another_version_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    with pytest.raises(BadRequest, match=r"train\.py has no line"):
        Watch(line="track.watch(model)", after="model = Net(").insert(script)


def test_the_list_of_scripts_names_data_that_can_be_made() -> None:
    entries = scripts()
    assert len({script.name for script in entries}) == len(entries) >= 30
    assert {request.partition(":")[0] for script in entries for request in script.data} <= set(MAKERS)
