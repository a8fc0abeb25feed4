"""Rules: their files, their rights in the database, and their stored findings."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight import rules
from hypergauge.sql.runs import firings
from hypergauge.sql.runs.firings import Firing, RuleFailed
from tests.support.data.ruled import found, moment, rows
from tests.support.world import World

HEADER = """\
-- name = "Mine"
-- means = "m"
-- advice = "a"
-- severity = "info"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- [parameters.minimum_duration]
-- default = "10 s"
"""
STATEMENT = """
select %(start)s as started_at, %(stop)s as ended_at,
       jsonb_build_object('run', %(run)s::text, 'threshold', %(threshold)s, 'minimum_duration', %(minimum_duration)s) as evidence
"""


@pytest.fixture
def start() -> float:
    return float(time.time() // 1 - 600)


def rule(folder: Path, statement: str, header: str = HEADER) -> rules.Rule:
    """Return a rule of a user's own, whose parameters are used in any case."""
    path = folder / "mine.sql"
    path.write_text(header + statement)
    return rules.read(path)


def using(statement: str) -> str:
    return f"with unused as (select %(threshold)s, %(minimum_duration)s)\n{statement}"


def test_a_rule_of_ones_own_is_given_the_run_the_interval_and_its_values(
    world: World, start: float, tmp_path: Path
) -> None:
    run = world.run(start, start + 60)
    [firing] = found(world, rule(tmp_path, STATEMENT + "; "), run, start, start + 60, threshold="0.25")
    assert firing == Firing(
        run, "Mine", moment(start), moment(start + 60), "info",
        {"run": run, "threshold": 0.25, "minimum_duration": "00:00:10"},
    )  # fmt: skip


def test_intervals_that_overlap_become_one(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    statement = """
    select %(start)s + make_interval(secs => x.at) as started_at, %(start)s + make_interval(secs => x.until) as ended_at,
           jsonb_build_object('device', x.device, 'what', 'idle') as evidence
    from (values (0, 10, 'GPU 0'), (5, 20, 'GPU 1'), (30, null, 'GPU 1'), (40, 50, 'GPU 1')) as x (at, until, device)
    """
    made = found(world, rule(tmp_path, using(statement)), run, start, start + 60)
    assert [(one.started_at, one.ended_at, one.evidence) for one in made] == [
        (moment(start), moment(start + 20), {"device": ["GPU 0", "GPU 1"], "what": "idle"}),
        (moment(start + 30), None, {"device": "GPU 1", "what": "idle"}),
    ]


ANSWER = "select now() as started_at, now() as ended_at, '{}'::jsonb as evidence"


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("delete from runs returning started_at, ended_at, '{}'::jsonb as evidence", "syntax error"),
        (f"with deleted as (delete from runs returning 1) {ANSWER}", "top level"),
        (f"{ANSWER} from (select summarise(run_id) from runs) x", "read-only"),
        (f"{ANSWER} from (select set_config('transaction_read_only', 'off', true)) x", "before any query"),
        (f"{ANSWER} from (select nextval('runset_ids')) x", "permission denied|read-only"),
        (f"{ANSWER} from (select pg_read_file('/etc/passwd')) x", "permission denied"),
        (f"{ANSWER}) x limit 1; drop table rule_firings; select (1", "multiple commands|syntax error"),
        ("select 1 as started_at, null as ended_at, '{}'::jsonb as evidence", "started_at is 1, but must be timestamptz"),
        ("select now() as started_at, null as ended_at, '{}'::jsonb as evidence", "ended_at"),
        ("select now() as started_at, null::timestamptz as ended_at, '[]'::jsonb as evidence", "evidence is"),
        ("select now() as started_at, null::timestamptz as ended_at", "it must return started_at"),
        (f"{ANSWER} from generate_series(1, 5000)", "more than 1000"),
    ],
)  # fmt: skip
def test_a_rule_can_only_read_and_has_to_answer_with_intervals(
    world: World, start: float, tmp_path: Path, statement: str, complaint: str
) -> None:
    run = world.run(start, start + 60)
    header = "".join(line + "\n" for line in HEADER.splitlines()[:4])
    if statement.startswith("select now() as started_at, null as ended_at"):
        assert found(world, rule(tmp_path, statement, header), run, start, start + 60)[0].ended_at is None
        return
    with pytest.raises(RuleFailed, match=complaint) as failure:
        found(world, rule(tmp_path, statement, header), run, start, start + 60)
    assert not failure.value.too_slow
    assert rows(world, "select status from runs") == [("finished",)]
    assert rows(world, "select current_user = session_user") == [(True,)]


def test_a_rule_is_given_up_at_its_limit(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    slow = rule(tmp_path, using(f"{ANSWER} from (select pg_sleep(300)) x"))
    began = time.monotonic()
    with pytest.raises(RuleFailed, match=r"longer than 0\.2 s") as failure:
        rules.evaluate(
            world.connection, slow, slow.values(), run, moment(start), moment(start + 60), timedelta(seconds=0.2)
        )
    assert failure.value.too_slow
    assert time.monotonic() - began < 200
    world.connection.execute("select pg_sleep(0.3)")  # the limit was the rule's alone


def test_what_the_database_refuses_names_the_line(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    wrong = rule(tmp_path, "\n" + using("select now() as started_at,\n  nowhere as ended_at, '{}'::jsonb as evidence"))
    with pytest.raises(RuleFailed, match='column "nowhere" does not exist') as failure:
        found(world, wrong, run, start, start + 60)
    assert failure.value.line == 3
    lines = (tmp_path / "mine.sql").read_text().splitlines()
    assert "nowhere" in lines[wrong.line + failure.value.line - 2]


BAD_FILES = {
    'name = "Mine': (1, "not valid TOML"),
    'name = "my rule"': (1, "letters and digits"),
    'severity = "warn"': (4, "did you mean 'warning'"),
    'advise = "x"': (5, "did you mean 'advice'"),
    'lookback = "10"': (5, "it has no unit"),
    'lookback = "10 sec"': (5, "did you mean"),
    '[parameters.threshold]\n-- default = true': (5, "needs a default"),
    '[parameters.threshold]\n-- default = 1\n-- units = "s"': (7, "did you mean 'unit'"),
    '[parameters.threshold]\n-- default = 1': (5, "does not use the parameter 'threshold'"),
    '[parameters.run]\n-- default = 1': (5, "a value that every rule has"),
    "[presets.smdebug]\n-- threshold = 3": (6, "unknown key 'threshold'"),
}  # fmt: skip


@pytest.mark.parametrize("line", BAD_FILES)
def test_a_broken_file_names_file_and_line(tmp_path: Path, line: str) -> None:
    head = {key: f'-- {key} = "{value}"' for key, value in
            {"name": "Mine", "means": "m", "advice": "a", "severity": "info"}.items()}  # fmt: skip
    key = line.split(" =")[0]
    head[key if key in head else "more"] = f"-- {line}"
    path = tmp_path / "mine.sql"
    path.write_text("\n".join(head.values()) + f"\n{ANSWER} where %(run)s <> ''\n")
    number, complaint = BAD_FILES[line]
    with pytest.raises(BadRequest, match=complaint) as refusal:
        rules.read(path)
    assert (refusal.value.file, refusal.value.line) == (path, number)


def test_an_unknown_value_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        BadRequest, match=r"mine\.sql:11:8: the header has no parameter 'treshold' \(did you mean 'thresh"
    ):
        rule(tmp_path, "\nselect %(treshold)s")


def test_values_are_those_given_then_the_presets_then_the_defaults(tmp_path: Path) -> None:
    one = rule(tmp_path, STATEMENT, HEADER + "-- [presets.smdebug]\n-- threshold = 0.9\n")
    ten = timedelta(seconds=10)
    assert one.values() == one.values("aws-docs") == {"threshold": 0.5, "minimum_duration": ten}
    assert one.values("smdebug") == {"threshold": 0.9, "minimum_duration": ten}
    assert one.values("smdebug", {"threshold": 0.1, "minimum_duration": "1 min"}) == {
        "threshold": 0.1,
        "minimum_duration": timedelta(minutes=1),
    }
    assert one.window(one.values()) is None
    (tmp_path / "back").mkdir()
    back = rule(tmp_path / "back", STATEMENT, HEADER.replace("-- [param", '-- lookback = "15 s"\n-- [param', 1))
    assert back.window(back.values()) == 2 * ten
    assert back.window(back.values(None, {"minimum_duration": "1 s"})) == timedelta(seconds=15)
    for given, complaint in (
        ({"treshold": 1}, "did you mean 'threshold'"),
        ({"threshold": "much"}, "Mine: threshold is a number in ratio, not 'much'"),
        ({"minimum_duration": 10}, "a duration such as '10 s'"),
    ):
        with pytest.raises(BadRequest, match=complaint):
            one.values(None, given)
    with pytest.raises(BadRequest, match="did you mean 'smdebug'"):
        rules.check_preset({"Mine": one}, "smdebugs")


def test_a_folder_adds_its_rules_under_names_of_their_own(tmp_path: Path) -> None:
    rule(tmp_path, STATEMENT)
    assert list(rules.load([tmp_path])) == [*rules.load(), "Mine"]
    (tmp_path / "more.sql").write_text(HEADER.replace("Mine", "IdleDevice") + STATEMENT)
    with pytest.raises(BadRequest, match="IdleDevice"):
        rules.load([tmp_path])
    with pytest.raises(BadRequest, match="no folder"):
        rules.load([tmp_path / "nowhere"])


def test_what_is_found_again_is_the_same_firing(world: World, start: float) -> None:
    run = world.run(start)

    def store(stop: float, *intervals: tuple[float, float | None], share: float = 0.5) -> int:
        some = [
            Firing(
                run, "Mine", moment(start + at), None if end is None else moment(start + end), "info", {"share": share}
            )
            for at, end in intervals
        ]
        return len(firings.store(world.connection, run, "Mine", some, start=moment(start), stop=moment(start + stop)))

    def stored() -> list[tuple[float, float | None, float]]:
        return [
            (at, end, share)
            for at, end, share in rows(
                world,
                "select extract(epoch from started_at)::float8 - %s, extract(epoch from ended_at)::float8 - %s,"
                " (evidence ->> 'share')::float8 from rule_firings order by started_at",
                start,
                start,
            )
        ]

    assert store(20, (5, None)) == 1
    assert store(30, (10, None), share=0.6) == 0  # it holds still, and the evaluated window begins later
    assert stored() == [(5, None, 0.6)]
    assert store(40, (10, 35)) == 0
    assert stored() == [(5, 35, 0.5)]
    assert store(60, (50, None)) == 1
    assert store(70) == 0  # what is no longer found has ended
    assert stored() == [(5, 35, 0.5), (50, 70, 0.5)]
    assert store(90, (30, None), share=0.7) == 0  # seen as a whole, both were one
    assert stored() == [(5, None, 0.7)]
    world.end(run, start, start + 100)
    firings.end_with_run(world.connection, run)
    assert stored() == [(5, 100, 0.7)]


def test_who_may_write_gives_that_up_for_a_rule(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    statement = ANSWER.replace("'{}'::jsonb", "to_jsonb(x)") + " from (select current_user as who) x"
    world.connection.execute("set session authorization bench_writer")
    [firing] = found(world, rule(tmp_path, using(statement)), run, start, start + 60)
    assert firing.evidence == {"who": "bench_reader"}
    assert (
        len(firings.store(world.connection, run, "Mine", [firing], start=moment(start), stop=moment(start + 60))) == 1
    )
