"""Rules that fire on running runs: the requested actions alone, once, on record."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.home import SCRIPTS, Home, Sheet, Started
from tests.support.waiting import HUNG_SECONDS, wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Params,Actions"
BUSY = """\
-- name = "Busy"
-- means = "The run uses more of a core than a start does."
-- advice = "None: this is a test."
-- severity = "warning"
-- lookback = "60 s"
-- [parameters.threshold]
-- default = 64
-- unit = "cores"
-- help = "What is too much."
select min(time) as started_at, null::timestamptz as ended_at, jsonb_build_object('cores', max(value)) as evidence
from run_chart(array[%(run)s], array['cpu_usage'], %(start)s, %(stop)s, 1000, false, 1, array['process'])
where value > %(threshold)s having count(*) > 3
"""
SLOW = """\
-- name = "Slow"
-- means = "Nothing."
-- advice = "None: this is a test."
-- severity = "info"
select now() as started_at, now() as ended_at, '{}'::jsonb as evidence from pg_sleep(60) where %(run)s <> ''
"""
BROKEN = SLOW.replace("Slow", "Broken").replace("pg_sleep(60)", "generate_series(1, 1 / length(left(%(run)s, 0)))")
# Program of the user that records its input; it gets neither a shell nor standard input.
NOTIFYING = """
import json, os, sys
notified = {name: value for name, value in os.environ.items() if name.startswith("BENCH_")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([sys.argv[2:], sys.stdin.read(), notified]) + "\\n")
print("notified", "x" * 100_000)
"""


@dataclass
class Receiver:
    """Real server for webhooks, which fails at first."""

    server: ThreadingHTTPServer
    notified: list[dict[str, Any]] = field(default_factory=list)
    tries: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook?token=s3cret"

    def of(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.notified if one["name"] == name]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.tries += 1
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if received.tries > 1:
                received.notified.append({**body, "path": self.path})
            self.send_response(200 if received.tries > 1 else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    received = Receiver(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    thread = threading.Thread(target=received.server.serve_forever)
    thread.start()
    yield received
    received.server.shutdown()
    thread.join()
    received.server.server_close()


@dataclass
class Scene:
    """A workload of which one run is to be stopped, one only notified about, and one left alone."""

    home: Home
    sheet: Sheet
    schedule: Started
    gate: Path
    notes: Path

    def run(self, name: str) -> dict[str, Any]:
        def there() -> list[dict[str, Any]]:
            return [run for run in self.home.runs(95) if run["name"] == name]

        [found] = wait_for(there, f"the run {name}")
        return found

    def ended(self, name: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            return run if (run := self.run(name))["status"] not in ("pending", "running") else None

        return wait_for(ended, f"the end of {name}")

    def actions(self, name: str) -> list[dict[str, Any]]:
        """Return the actions of a run's firings when all of them are done."""

        def done() -> list[dict[str, Any]] | None:
            found = self.home.query(
                "select * from rule_actions where run_id = %s order by action", self.run(name)["run_id"]
            )
            return found if found and all(one["outcome"] for one in found) else None

        return wait_for(done, f"what is done about {name}")


@pytest.fixture(scope="module")
def project(home: Home, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A folder with settings and rules of its own, on the same home."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "rules").mkdir()
    for name, text in (("busy", BUSY), ("slow", SLOW), ("broken", BROKEN)):
        (folder / "rules" / f"{name}.sql").write_text(text)
    (folder / "notifying.py").write_text(NOTIFYING)
    command = json.dumps([sys.executable, "notifying.py", "notes", "$HOME; echo", "*"])
    (folder / "bench.toml").write_text(
        "[rules]\nevery = '1 s'\nlimit = '300 ms'\n"
        "[rules.Busy]\nthreshold = 0.1\nactions = ['mark', 'note']\n"
        f"[actions.tell-us]\nwebhook = '{receiver.url}'\n[actions.note]\ncommand = {command}\n"
    )
    own = Home(home.path, folder)
    yield own
    own.end()


@pytest.fixture(scope="module")
def scene(project: Home) -> Scene:
    gate = project.folder / "gate"
    rows = [
        "95,1,busy,{scripts}/clocked.py,--seconds 600,Busy:stop-run+Busy:tell-us",
        f"95,1,idle,{{scripts}}/gate.py,{gate},Busy:stop-workload",
        "95,1,notified,{scripts}/clocked.py,--seconds 600,Busy : tell-us",
        "95,2,short,{scripts}/clocked.py,--seconds 9,Busy:stop-run",
    ]
    sheet = project.sheet("rules", HEADER, rows)
    return Scene(project, sheet, project.start("schedule", sheet.path), gate, project.folder / "notes")


@dataclass(frozen=True)
class Seen:
    """Observations during runs of the scene, while the rules' process was killed."""

    beside: list[str]
    firing: list[str]


@pytest.fixture(scope="module")
def seen(scene: Scene, receiver: Receiver) -> Seen:
    scene.ended("busy")
    beside = [scene.run(name)["status"] for name in ("idle", "notified")]
    wait_for(lambda: receiver.of("notified"), "the webhook of the running run")
    # A begun action of a killed process is not repeated: none may be in progress at the kill.
    for name in ("busy", "notified"):
        scene.actions(name)
    [running] = [run for run in scene.home.json("status")["runs"] if run["name"] == "notified"]
    os.kill(json.loads((scene.home.path / "stack" / "rules.service").read_text())["pid"], signal.SIGKILL)
    scene.home.bench("up")
    wait_for(lambda: metrics(scene.home).get("evaluated_runs_total", 0) >= 4, "rounds of the new process")
    return Seen(beside, running["firing"])


@pytest.fixture(scope="module")
def over(scene: Scene, seen: Seen) -> Scene:
    """The scene when all its runs have ended."""
    scene.home.bench("stop", "95/1/3")
    scene.gate.touch()
    scene.schedule.wait(1)
    return scene


def test_an_action_stops_one_run_of_a_workload(scene: Scene, seen: Seen) -> None:
    busy = scene.ended("busy")
    assert busy["status"] == "stopped"
    assert busy["reason"].startswith("stopped by the rule Busy: cores ")
    assert busy["duration"] < 100  # it was not over by itself
    assert seen.beside == ["running", "running"]
    assert wait_for(lambda: scene.sheet.column("Status")[0] == "stopped", "writing back")


def test_actions_are_recorded_with_their_evidence(scene: Scene) -> None:
    done = scene.actions("busy")
    [firing] = scene.home.query(
        "select * from rule_firings where run_id = %s and rule = 'Busy'", scene.run("busy")["run_id"]
    )
    assert [(one["action"], one["outcome"]) for one in done] == [
        ("note", "done"), ("stop-run", "done"), ("tell-us", "done"),
    ]  # fmt: skip
    assert {one["started_at"] for one in done} == {firing["started_at"]}
    assert all(one["evidence"]["cores"] > 0.1 for one in done)


def test_a_command_gets_the_facts_and_no_shell(scene: Scene) -> None:
    scene.actions("busy")
    run = scene.run("busy")
    notified = [json.loads(line) for line in scene.notes.read_text().splitlines()]
    [(words, stdin, facts)] = [one for one in notified if one[2]["BENCH_RULE_NAME"] == "busy"]
    assert (words, stdin) == (["$HOME; echo", "*"], "")
    assert {"BENCH_DSN", "BENCH_RUN_ID"}.isdisjoint(facts)
    assert (facts["BENCH_RULE"], facts["BENCH_RULE_RUN"]) == ("Busy", "95/1/1@1")
    assert (facts["BENCH_RULE_RUN_ID"], facts["BENCH_RULE_EXPERIMENT"]) == (run["run_id"], "95")
    assert json.loads(facts["BENCH_RULE_EVIDENCE"])["cores"] > 0.1
    [note] = [one for one in scene.actions("busy") if one["action"] == "note"]
    assert note["detail"].startswith("exit status 0: notified xxx")
    assert len(note["detail"]) < 5000


def test_a_webhook_is_notified_once_despite_a_kill(scene: Scene, seen: Seen, receiver: Receiver) -> None:
    assert seen.firing == ["Busy"]
    [busy], [notified] = receiver.of("busy"), receiver.of("notified")
    assert (busy["rule"], busy["run"], notified["run"], notified["severity"]) == (
        "Busy",
        "95/1/1@1",
        "95/1/3@1",
        "warning",
    )
    assert notified["path"] == "/hook?token=s3cret"
    assert notified["text"].startswith("Busy (warning) fired in 95/1/3@1 notified: cores ")
    assert receiver.tries == 3  # the first was not heard, and was made again
    assert len(scene.actions("notified")) == 2


def test_a_rule_that_is_slow_or_fails_is_skipped_and_counted(scene: Scene) -> None:
    for why in ("slow Slow", "failed Broken", "paused Slow"):
        wait_for(lambda: metrics(scene.home).get(f"skipped_total {why}", 0) >= 1, why)  # noqa: B023
    assert scene.home.json("status")["services"]["rules"]["up"]


def test_a_run_is_evaluated_as_a_whole_when_it_has_ended(over: Scene) -> None:
    scene = over
    assert scene.ended("idle")["status"] == "finished"
    assert scene.ended("short")["status"] in ("finished", "stopped")
    ids = [run["run_id"] for run in scene.home.runs(95)]
    evaluated = "select count(*) as n from runs where evaluated and run_id = any(%s)"
    wait_for(lambda: scene.home.query(evaluated, ids)[0]["n"] == 4, "verdict")
    found = scene.home.query("select * from rule_firings where rule = 'Busy' and run_id = any(%s)", ids)
    assert {one["run_id"] for one in found} == {scene.run(name)["run_id"] for name in ("busy", "notified", "short")}
    assert all(one["ended_at"] for one in found)
    notified = "select count(distinct run_id) as n from highlights where run_id = any(%s)"
    assert wait_for(lambda: scene.home.query(notified, ids)[0]["n"], "highlights")
    assert {one["action"] for one in scene.actions("short")} == {"note", "stop-run"}


def test_secrets_are_in_no_log(scene: Scene) -> None:
    logs = [path.read_text(errors="replace") for path in (scene.home.path / "log").glob("*.log")]
    assert logs
    assert not any("s3cret" in log for log in logs)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("Bussy:stop-run", ":2:5: Actions: there is no rule 'Bussy' (did you mean 'Busy'?)"),
        ("Busy:mark+Busy:stop", ":2:5: Actions: there is no action 'stop' (did you mean 'stop-run'?)"),
        ("Busy:http://example.org", ":2:5: Actions: there is no action 'http://example.org' (one of: mark, "),
        ("Slow:mark", ":2:5: Actions: the rule 'Slow' is switched off in bench.toml"),
        ("stop-run", ":2:5: Actions: 'stop-run' is not an action: write RULE:ACTION"),
    ],
)
def test_unlisted_actions_are_refused(tmp_path: Path, actions: str, message: str) -> None:
    nowhere = Home(tmp_path / "home", tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "busy.sql").write_text(BUSY)
    (tmp_path / "rules" / "slow.sql").write_text(SLOW)
    (tmp_path / "bench.toml").write_text("[rules.Slow]\nenabled = false\n")
    sheet = nowhere.sheet("bad", "Experiment,Workload,Actions,File", [f"1,1,{actions},{SCRIPTS}/clocked.py"])
    assert message in nowhere.bench("schedule", sheet.path, status=2)
    assert not nowhere.path.exists()


def test_settings_that_are_wrong_are_refused_before_anything_starts(tmp_path: Path) -> None:
    nowhere = Home(tmp_path / "home", tmp_path)
    (tmp_path / "bench.toml").write_text("[rules.IdleDevise]\nenabled = false\n")
    printed = nowhere.bench("run", "--", "true", status=2)
    assert (
        f"{tmp_path}/bench.toml: [rules.IdleDevise]: there is no rule 'IdleDevise' (did you mean 'IdleDevice'?)"
        in printed
    )
    assert not nowhere.path.exists()


def metrics(home: Home) -> dict[str, float]:
    """Return the process's metrics of itself: `name`, or `name label label`."""
    url = home.json("status")["services"]["rules"]["url"]
    with urllib.request.urlopen(url, timeout=HUNG_SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        " ".join([sample.name.removeprefix("bench_rules_"), *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }
