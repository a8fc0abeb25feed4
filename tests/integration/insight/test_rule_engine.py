"""Rule evaluation: runs, rules, requested actions, each once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.core.system.processes import identity
from hypergauge.insight.rules.engine import RuleEngine
from hypergauge.insight.rules.metrics import RuleMetrics
from hypergauge.scheduler.reactions.actions import Actions
from hypergauge.sql.queries.report import findings
from hypergauge.sql.runs import runs
from tests.support.waiting import HUNG_SECONDS
from tests.support.world import HOST, World

ALWAYS = """\
-- name = "Always"
-- means = "Nothing."
-- advice = "None: this is a test."
-- severity = "info"
-- [parameters.share]
-- default = 0.25
-- unit = "ratio"
-- help = "A help text."
select %(start)s::timestamptz as started_at, null::timestamptz as ended_at, jsonb_build_object('share', %(share)s::float8) as evidence
where %(run)s <> '' and %(stop)s::timestamptz > %(start)s
"""
SLOW = """\
-- name = "Slow"
-- means = "Nothing."
-- advice = "None: this is a test."
-- severity = "info"
select now() as started_at, now() as ended_at, '{}'::jsonb as evidence from pg_sleep(30)
"""
LEARNING = ALWAYS.replace("Always", "Learning").replace('"info"', '"info"\n-- needs = ["losses"]')
BROKEN = SLOW.replace("Slow", "Broken").replace("pg_sleep(30)", "no_such_table")


@dataclass
class Desk:
    """A home with one rule engine and its actions. `toml` is the settings file that runs are started with."""

    world: World
    folder: Path
    metrics: RuleMetrics = field(default_factory=RuleMetrics)
    outcomes: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "rules").mkdir(parents=True)
        (self.folder / "rules" / "always.sql").write_text(ALWAYS)
        self.evaluator = self.new_evaluator()

    @property
    def toml(self) -> Path:
        return self.folder / "bench.toml"

    def new_evaluator(self) -> RuleEngine:
        # On a host under load, any rule would be heavy.
        return RuleEngine(HOST, self.folder / "runs", self.metrics, HUNG_SECONDS)

    def run(self, actions: dict[str, list[str]] | None = None, *, workload: int = 1, position: int = 1) -> str:
        """Start a run a minute ago."""
        run_id = self.world.run(time.time() - 60, workload=workload, position=position)
        self.query("update runs set actions = %s where run_id = %s", json.dumps(actions or {}), run_id)
        RunFolder(self.folder / "runs" / run_id).create({"config": str(self.toml) if self.toml.exists() else None})
        return run_id

    def end(self, run_id: str, *, settled: bool = True, delivered: bool = True) -> None:
        end = RunEnd("finished", time.time() - 60, time.time(), 0, None, 0.0, 0, 0, 0)
        folder = RunFolder(self.folder / "runs" / run_id)
        folder.write_end(end)
        if delivered:
            folder.mark_delivered()
        runs.end_run(self.world.connection, run_id, end)
        self.query("update runs set summarised = %s where run_id = %s", settled, run_id)

    def look(self, evaluator: RuleEngine | None = None) -> None:
        with self.world.database.connect() as reader:
            (evaluator or self.evaluator).look(self.world.connection, reader, lambda: None)

    def act(self) -> None:
        """Do the requested actions, to their end."""
        runs_dir = self.folder / "runs"
        actions = Actions(self.world.database, HOST, runs_dir, lambda *one: self.outcomes.append(one), 1.0)
        actions.begin(self.world.connection)
        actions.close()

    def query(self, statement: str, *values: object) -> list[Any]:
        cursor = self.world.connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def firings(self, run_id: str) -> list[str]:
        return [rule for (rule,) in self.query("select rule from rule_firings where run_id = %s order by rule", run_id)]

    def recorded_actions(self, run_id: str) -> list[tuple[str, str | None, str | None]]:
        statement = "select action, outcome, detail from rule_actions where run_id = %s order by action"
        return self.query(statement, run_id)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"bench_rules_{name}_total", labels) or 0.0


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Desk:
    return Desk(world, tmp_path / "project")


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]], list[int]]]:
    """The address of a real server, the notifications it received, and the statuses of its answers before 200."""
    bodies: list[dict[str, Any]] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=s3cret", bodies, statuses
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_settings_rules_only_mark(desk: Desk) -> None:
    run_id = desk.run()
    desk.look()
    assert desk.count("evaluated_runs") == 1
    assert desk.recorded_actions(run_id) == []


def test_an_action_is_requested_once_by_settings_and_row(desk: Desk) -> None:
    desk.toml.write_text("[rules]\nevery = '1 h'\n[rules.Always]\nactions = ['mark', 'stop-run']\n")
    run_id = desk.run({"Always": ["stop-run", "stop-workload"], "Slow": ["mark"]})
    desk.look()
    desk.look()  # too early
    assert desk.count("evaluated_runs") == 1
    desk.look(desk.new_evaluator())
    assert desk.count("evaluated_runs") == 2
    assert desk.firings(run_id) == ["Always"]
    assert desk.recorded_actions(run_id) == [("stop-run", None, None), ("stop-workload", None, None)]
    assert (desk.count("firings", rule="Always")) == 1


def test_an_ended_run_is_evaluated_again_when_all_is_there(desk: Desk) -> None:
    desk.toml.touch()
    run_id = desk.run({"Always": ["stop-run"]})
    desk.end(run_id, delivered=False)
    desk.look()
    desk.end(run_id, settled=False)
    desk.look()
    assert desk.firings(run_id) == []
    desk.end(run_id)
    desk.look()
    desk.act()
    assert desk.firings(run_id) == ["Always"]
    assert desk.recorded_actions(run_id) == [("stop-run", "needless", "it had ended")]
    assert desk.query("select ended_at is not null from rule_firings") == [(True,)]
    desk.look()
    assert desk.count("evaluated_runs") == 1


def test_a_run_that_is_too_short_for_samples_is_evaluated_by_what_its_script_wrote(desk: Desk) -> None:
    (desk.folder / "rules" / "learning.sql").write_text(LEARNING)
    desk.toml.touch()
    run_id = desk.run()
    desk.query(
        "insert into software_metrics (run_id, key, step, time, elapsed, value) values (%s, 'loss', 0, now(), '0', 1)",
        run_id,
    )
    desk.query("update runs set started_at = now() - interval '1 s' where run_id = %s", run_id)
    desk.look()
    assert desk.firings(run_id) == []
    desk.end(run_id)
    desk.look()
    assert desk.firings(run_id) == ["Learning"]


def test_runs_of_other_homes_and_hosts_are_left_to_those(desk: Desk) -> None:
    run_id = desk.run({"Always": ["stop-run"]})
    (desk.folder / "runs").rename(desk.folder / "elsewhere")
    desk.look()
    RuleEngine("node2", desk.folder / "elsewhere", desk.metrics)
    desk.look(RuleEngine("node2", desk.folder / "elsewhere", desk.metrics))
    assert (desk.firings(run_id), desk.count("evaluated_runs")) == ([], 0)


def test_a_rule_that_is_slow_or_fails_is_left_alone_and_counted(desk: Desk) -> None:
    (desk.folder / "rules" / "slow.sql").write_text(SLOW)
    (desk.folder / "rules" / "broken.sql").write_text(BROKEN)
    desk.toml.write_text("[rules]\nlimit = '200 ms'\n")
    first, second = desk.run(), desk.run(position=2)
    desk.look()
    assert (desk.firings(first), desk.firings(second)) == (["Always"], ["Always"])
    for rule, reason in (("Slow", "slow"), ("Broken", "failed")):
        assert desk.count("skipped", rule=rule, reason=reason) == 1
        assert desk.count("skipped", rule=rule, reason="paused") == 1


def test_a_heavy_rule_is_evaluated_less_often_but_always_at_the_end(desk: Desk) -> None:
    (desk.folder / "rules" / "heavy.sql").write_text(SLOW.replace("Slow", "Heavy").replace("30", "0.6"))
    desk.toml.write_text("[rules]\nevery = '500 ms'\n")
    run_id, evaluator = desk.run(), RuleEngine(HOST, desk.folder / "runs", desk.metrics, heavy_seconds=0.5)
    desk.look(evaluator)
    time.sleep(0.5)
    desk.look(evaluator)
    assert desk.count("firings", rule="Heavy") == 2  # the first duration may be that of planning
    desk.query("delete from rule_firings")
    time.sleep(0.5)
    desk.look(evaluator)
    assert desk.firings(run_id) == ["Always"]
    desk.end(run_id)
    desk.look(evaluator)
    assert desk.firings(run_id) == ["Always", "Heavy"]


def test_settings_count_as_they_are_by_now_and_as_before_while_they_are_broken(desk: Desk) -> None:
    desk.toml.write_text("[rules]\nevery = '500 ms'\n[rules.Always]\nshare = 0.5\n")
    run_id = desk.run()
    expected = "select evidence ->> 'share' from rule_firings"
    for content, share in (("", "0.5"), ("share = 0.75\n", "0.75"), ("shard = 1\n", "0.75"), ("share = 1\n", "1")):
        if content:
            desk.toml.write_text(f"[rules]\nevery = '500 ms'\n[rules.Always]\n{content}")
        desk.evaluator._due.clear()
        desk.look()
        assert desk.query(expected) == [(share,)]
    assert desk.count("errors", reason="settings") == 1
    assert desk.firings(run_id) == ["Always"]


def test_a_webhook_is_posted_until_it_is_heard(
    desk: Desk, webhook: tuple[str, list[dict[str, Any]], list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    url, bodies, statuses = webhook
    statuses += [503, 429]
    desk.toml.write_text(f"[actions.tell-us]\nwebhook = '{url}'\n")
    run_id = desk.run({"Always": ["tell-us"]})
    desk.look()
    desk.act()
    desk.act()
    assert desk.recorded_actions(run_id) == [("tell-us", "done", "status 200")]
    assert len({body["id"] for body in bodies}) == 1
    assert len(bodies) == 3
    body = bodies[-1]
    assert (body["rule"], body["run"], body["evidence"]) == ("Always", "20/1/1@1", {"share": 0.25})
    assert body["text"] == "Always (info) fired in 20/1/1@1 train: share 0.25"
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("action", "outcome", "detail"),
    [
        ("webhook = 'http://127.0.0.1:9/hook?token=s3cret'", "failed", "no answer: Connection refused"),
        ("webhook = 'REFUSING'", "failed", "status 403"),
        (
            "command = ['PYTHON', '-c', 'import sys; print(sys.stdin.read(), 7); sys.exit(3)']",
            "failed",
            "exit status 3: 7",
        ),
        ("command = ['./missing']", "failed", "it cannot be started: No such file or directory"),
        ("command = ['sh', '-c', 'sleep 60 & echo gone']", "done", "exit status 0: gone"),
    ],
)
def test_the_outcome_of_an_action_is_recorded(
    desk: Desk, webhook: tuple[str, list[dict[str, Any]], list[int]], action: str, outcome: str, detail: str
) -> None:
    url, _, statuses = webhook
    statuses += [403]
    written = action.replace("REFUSING", url).replace("PYTHON", sys.executable)
    desk.toml.write_text(f"[actions.it]\n{written}\n")
    run_id = desk.run({"Always": ["it"]})
    desk.look()
    desk.act()
    assert desk.recorded_actions(run_id) == [("it", outcome, detail)]
    assert desk.outcomes == [("it", outcome)]


def test_what_a_process_had_begun_when_it_died_is_not_done_again(
    desk: Desk, webhook: tuple[str, list[dict[str, Any]], list[int]]
) -> None:
    url, bodies, _ = webhook
    desk.toml.write_text(f"[actions.tell-us]\nwebhook = '{url}'\n")
    begun, waiting = desk.run({"Always": ["tell-us"]}), desk.run({"Always": ["tell-us"]}, position=2)
    desk.look()
    desk.query("update rule_actions set begun_at = now() where run_id = %s", begun)
    desk.act()
    assert [body["run_id"] for body in bodies] == [waiting]
    assert desk.recorded_actions(begun) == [("tell-us", None, None)]


def test_an_action_that_is_no_longer_listed_is_not_done(desk: Desk) -> None:
    desk.toml.write_text("[actions.tell-us]\ncommand = ['true']\n")
    run_id = desk.run({"Always": ["tell-us"]})
    desk.look()
    desk.toml.write_text("")
    desk.act()
    assert desk.recorded_actions(run_id) == [
        ("tell-us", "failed", "the settings of the run no longer have this action")
    ]


def test_a_stop_names_the_rule_and_its_evidence(desk: Desk) -> None:
    desk.toml.touch()
    ids = [desk.run({"Always": ["stop-workload"]}), desk.run(position=2), desk.run(workload=2)]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in ids]
        for run_id, process in zip(ids, processes, strict=True):
            stack.callback(process.kill)
            state = SupervisorState(process.pid, identity(process.pid) or 0.0)
            RunFolder(desk.folder / "runs" / run_id).write_state(state)
        desk.look()
        desk.act()
        assert desk.recorded_actions(ids[0]) == [("stop-workload", "done", "")]
        assert [process.wait(HUNG_SECONDS) for process in processes[:2]] == [-signal.SIGTERM] * 2
        assert processes[2].poll() is None
    expected = "stopped with its workload by the rule Always, which fired in 20/1/1@1: share 0.25"
    assert [RunFolder(desk.folder / "runs" / run_id).stop_reason() for run_id in ids] == [expected, expected, None]


def test_a_run_is_profiled_once_when_a_rule_fires(desk: Desk) -> None:
    desk.toml.touch()
    run_id = desk.run({"Always": ["profile"]})
    busy = "def spin():\n    while True:\n        sum(range(9999))\nspin()"
    with subprocess.Popen([sys.executable, "-c", busy], env={**os.environ, "BENCH_RUN_ID": run_id}) as process:
        try:
            desk.look()
            desk.act()
            desk.look()
            desk.act()
        finally:
            process.kill()
    assert desk.recorded_actions(run_id) == [("profile", "done", "profile 2 by py-spy")]
    found = desk.query("select number, name from profile_entries where run_id = %s and self > 0", run_id)
    assert found == [(2, "spin (<string>:1)")]


def test_a_run_without_processes_cannot_be_profiled(desk: Desk) -> None:
    desk.toml.touch()
    run_id = desk.run({"Always": ["profile"]})
    desk.look()
    desk.act()
    [(action, outcome, detail)] = desk.recorded_actions(run_id)
    assert (action, outcome) == ("profile", "failed")
    assert detail is not None
    assert "has no process on this host" in detail


def test_firings_and_what_was_done_are_shown(desk: Desk) -> None:
    desk.toml.write_text("[actions.it]\ncommand = ['echo', 'heard']\n")
    run_id = desk.run({"Always": ["it", "stop-run"]})
    desk.look()
    [before] = findings(desk.world.connection, [run_id])
    assert (before.rule, before.ended, before.done) == ("Always", None, "it: to be done; stop-run: to be done")
    desk.end(run_id)
    desk.act()
    desk.look()
    [after] = findings(desk.world.connection, [run_id])
    assert after.done == "it: done (exit status 0: heard); stop-run: needless (it had ended)"
    axis = "select extract(epoch from time)::float8, extract(epoch from timeend)::float8, text, tags from chart_firings(%s)"
    [(start, end, text, severity)] = desk.query(axis, [run_id])
    assert (text, severity) == ("Always", "info")
    assert start == pytest.approx(0, abs=0.01)
    assert end == pytest.approx(60, abs=30)
    assert desk.query("select * from chart_firings(%s, 'time', 0)", [run_id]) == []
