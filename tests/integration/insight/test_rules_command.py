"""``bench rules``: output, stored findings and refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hypergauge.insight import rules
from tests.conftest import Command
from tests.support.data.ruled import cpu, rows
from tests.support.world import World

MINE = """\
-- name = "Short"
-- means = "The run was short."
-- advice = "Let it train for longer."
-- severity = "info"
-- [parameters.threshold]
-- default = "20 s"

select started_at, ended_at, jsonb_build_object('seconds', extract(epoch from ended_at - started_at)) as evidence
from runs where run_id = %(run)s and ended_at - started_at < %(threshold)s
"""


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command over three runs, which use 1, 1.6 and 2 of the two cores that they may."""
    start = time.time() // 60 * 60 - 600
    for workload, (used, seconds) in enumerate(((1.0, 60), (1.6, 40), (2.0, 30)), 1):
        run = world.run(start, start + seconds, workload=workload)
        cpu(world, run, start, [used] * seconds, available=2)
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)

    def run_bench(*words: str) -> tuple[int, str, str]:
        return command("rules", *words)

    return run_bench


def test_past_runs_are_evaluated_and_firings_are_stored_once(bench: Command, world: World) -> None:
    status, output, _ = bench("replay", "20", "--store", "--json")
    fired = {(one["run"], one["rule"]): one["firings"] for one in json.loads(output) if one["firings"]}
    assert status == 0
    assert list(fired) == [("20/3/1", "CpuSaturated")]
    [firing] = fired["20/3/1", "CpuSaturated"]
    assert firing["evidence"] == {"share": pytest.approx(1), "cores": pytest.approx(2), "available": 2}
    kept = "select rule, severity, ended_at - started_at = interval '30 s', ended_at is null from rule_firings"
    assert rows(world, kept) == [("CpuSaturated", "info", True, False)]
    assert bench("replay", "--store")[0] == 0
    assert rows(world, kept) == [("CpuSaturated", "info", True, False)]
    output = bench("replay")[1]
    assert "cores 2, share 1, available 2" in output
    assert "1 firing in 1 of 3 runs" in output
    assert "2 firings in 2 of 3 runs" in bench("replay", "--set", "CpuSaturated.threshold=0.75")[1]
    assert "0 firings in 0 of 2 runs" in bench("replay", "20/1", "20/3", "--rule", "IdleDevice")[1]


def test_settings_choose_the_rules_and_their_parameters(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(
        "[rules]\npreset = 'smdebug'\n[rules.CpuSaturated]\nthreshold = 0.75\n[rules.IdleDevice]\nenabled = false\n"
    )
    listed = {one["rule"]: one for one in json.loads(bench("list", "--json")[1])}
    assert listed["CpuSaturated"]["parameters"]["threshold"]["value"] == 0.75
    assert listed["StepOutlier"]["parameters"]["stddev"]["value"] == 3
    assert [name for name, one in listed.items() if not one["enabled"]] == ["IdleDevice"]
    output = json.loads(bench("replay", "--json")[1])
    assert "IdleDevice" not in {one["rule"] for one in output}
    assert sum(len(one["firings"]) for one in output) == 2
    (tmp_path / "bench.toml").write_text("[rules.CpuSaturatd]\nthreshold = 0.75\n")
    status, _, complaint = bench("list")
    assert status == 2
    assert "[rules.CpuSaturatd]: there is no rule 'CpuSaturatd' (did you mean 'CpuSaturated'?)" in complaint


def test_a_sweep_counts_the_runs_on_which_a_threshold_would_fire(bench: Command) -> None:
    status, output, _ = bench("replay", "--sweep", "CpuSaturated.threshold=0.4,0.7,0.9,1.1", "--json")
    content = json.loads(output)
    assert status == 0
    assert (content["rule"], content["parameter"], content["value"]) == ("CpuSaturated", "threshold", 0.9)
    assert [(one["value"], one["fired"], one["runs"], one["seconds"]) for one in content["sweep"]] == [
        (0.4, 3, 3, 130), (0.7, 2, 3, 70), (0.9, 1, 3, 30), (1.1, 0, 3, 0),
    ]  # fmt: skip
    output = bench(
        "replay", "--sweep", "CpuSaturated.minimum_duration=1 s,35 s,50 s", "--set", "CpuSaturated.threshold=0.4"
    )[1]
    assert [line.split()[2:4] for line in output.splitlines() if " s " in line] == [["3", "3"], ["2", "3"], ["1", "3"]]


def test_all_rules_are_shown_with_what_can_be_set(bench: Command) -> None:
    content = json.loads(bench("list", "--preset", "smdebug", "--json")[1])
    assert {one["rule"] for one in content} == rules.load().keys()
    [outlier] = [one for one in content if one["rule"] == "StepOutlier"]
    stddev = outlier["parameters"]["stddev"]
    assert (stddev["value"], stddev["default"], stddev["unit"]) == (3, 5, "")
    assert stddev["help"]
    assert "minimum_duration = 5 min" in bench("list")[1]


def test_names_stay_whole_on_a_narrow_terminal(bench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = bench("list")[1]
    assert max(map(len, shown.splitlines())) <= 80
    known = rules.load().values()
    assert {*(one.name for one in known), *(name for one in known for name in one.parameters)} <= set(shown.split())
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "own.sql").write_text(MINE.replace("Short", "ShorterThanOthersOfTheKind"))
    shown = bench("replay", "--folder", "more", "--set", "ShorterThanOthersOfTheKind.threshold=35 s")[1]
    assert max(map(len, shown.splitlines())) <= 80
    assert {"CpuSaturated", "ShorterThanOthersOfTheKind"} <= set(shown.split())


def test_an_own_file_is_checked_and_then_evaluated(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "bench.toml").touch()
    (tmp_path / "rules").mkdir()
    file = tmp_path / "rules" / "short.sql"
    file.write_text(MINE)
    status, output, _ = bench("check", str(file))
    assert (status, output) == (0, f"{file}: Short is valid, tested on 20/1/1\n")
    assert "1 firing in 1 of 3 runs" in bench("replay", "--rule", "Short", "--set", "Short.threshold=35 s")[1]
    for broken, line, complaint in (
        (MINE.replace("severity", "severty"), 4, "unknown key 'severty' (did you mean 'severity'?)"),
        (MINE.replace("from runs", "from rums"), 9, 'relation "rums" does not exist'),
        (MINE.replace("as evidence", "as proof"), 8, "it must return started_at, ended_at and evidence"),
        (MINE.replace("%(threshold)s", "%(treshold)s"), 9, "no parameter 'treshold' (did you mean 'threshold'?)"),
        (MINE.replace("Short", "IdleDevice"), 1, "IdleDevice is a built-in rule"),
        (MINE.replace("%(run)s and", "%(run)s and pg_sleep(20) is not null and"), 8, "longer than 0.2 s"),
    ):
        file.write_text(broken)
        status, _, output = bench("check", str(file), "--limit", "200 ms")
        assert (status, complaint in output) == (2, True), output
        assert f"{file}:{line}:" in output


def test_a_rule_that_fails_is_named_and_the_others_continue(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "slow.sql").write_text(MINE.replace("%(run)s and", "%(run)s and pg_sleep(20) is not null and"))
    status, output, _ = bench("replay", "20/3", "--folder", "more", "--limit", "1 s")
    assert status == 1
    assert "1 firing in 1 of 1 run" in output
    assert "20/3/1: Short " in output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["replay", "--rule", "IdleDevise"], "(did you mean 'IdleDevice'?)"),
        (
            ["replay", "--set", "IdleDevice.treshold=1"],
            "(did you mean 'threshold'?)",
        ),
        (["replay", "--set", "threshold=1"], "RULE.PARAMETER=VALUE"),
        (["replay", "--set", "IdleDevice.threshold=much"], "threshold is a number in ratio, not 'much'"),
        (["replay", "--sweep", "IdleDevice.minimum_duration=10 s,20"], "'20' is not a duration: it has no unit"),
        (["replay", "--sweep", "IdleDevice.minimum_duration=10 s", "--store"], "leave out --store and --rule"),
        (["replay", "--limit", "5 sec"], "'sec'"),
        (["list", "--preset", "aws"], "(did you mean 'aws-docs'?)"),
        (["list", "--folder", "nowhere"], "'nowhere'"),
        (["replay", "99"], "99 names no run"),
        (["check", "nowhere.sql"], "nowhere.sql: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_meant_is_refused(bench: Command, words: list[str], complaint: str) -> None:
    status, _, output = bench(*words)
    assert status == 2
    assert complaint in output
