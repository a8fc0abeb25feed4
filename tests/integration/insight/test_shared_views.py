"""`bench share` and `bench open`: a selection in a small file, shown with current data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.support.terminal import Terminal
from tests.support.world import World

COMMAND = [sys.executable, "-P", "-m", "hypergauge.cli"]
SECONDS = 60


class Desk:
    """A folder in which a user types commands, on a database with three runs of two workloads."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        start = time.time() - 600
        positions = ((1, 1), (1, 2), (2, 1))
        self.ids = [world.run(start, start + SECONDS, workload=one, position=other) for one, other in positions]
        times = [start + 0.5 + at for at in range(SECONDS)]
        for number, run_id in enumerate(self.ids, 1):
            labels = {"run_id": run_id}
            world.write(
                world.gauge("bench_process_cpu_seconds_total", times, [float(number)] * SECONDS, labels, "process"),
                world.gauge("bench_process_threads", times[:30], [4.0] * 30, labels, "process"),
            )
        losses = [SoftwareMetric("loss", step, start + step, 1 / (step + 1)) for step in range(10)]
        store_software_metrics(world.connection, self.ids[0], losses)

    @property
    def environment(self) -> dict[str, str]:
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        return {**others, **self.world.database.settings.environment(), "BENCH_GRAFANA_URL": "http://me:secret@g:3000/"}

    def bench(self, *words: str, status: int = 0) -> str:
        done = subprocess.run([*COMMAND, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self.bench(*words, "--json"))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def write(self, name: str, charts: Sequence[dict[str, Any]]) -> None:
        (self.folder / name).write_text(json.dumps({"hypergauge": 1, "charts": charts}))


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(world, folder)


def test_a_selection_is_shared_and_opened(desk: Desk) -> None:
    first, second, third = (run_id[:12] for run_id in desk.ids)
    output = desk.bench("share", "20", "-m", "cpu_usage", "-o", "view.json")
    assert output == "Wrote a chart to view.json, 1 metric of 3 runs; `bench open view.json` shows it\n"
    (desk.folder / "view.json").chmod(0o640)
    words = ["share", "20/1", "-m", "cpu_usage", "-m", "threads", "--by", "workload", "-o", "view.json"]
    assert desk.bench(*words) == "Added a chart to view.json, 2 metrics of 2 runs: it has 2 now\n"
    assert (desk.folder / "view.json").stat().st_mode & 0o777 == 0o640
    assert json.loads(desk.read("view.json")) == {
        "hypergauge": 1,
        "charts": [
            {"runs": [first, second, third], "metrics": ["cpu_usage"]},
            {"runs": [first, second], "metrics": ["cpu_usage", "threads"], "by": "workload"},
        ],
    }
    assert desk.json(*words) == {
        "file": "view.json",
        "added": False,
        "charts": json.loads(desk.read("view.json"))["charts"],
    }
    output = desk.bench("open", "view.json")
    assert output.endswith("Wrote 2 charts to view.html\n")
    page = desk.read("view.html")
    assert all(label in page for label in ("20/1/1 train", "20/1/2 train", "20/2/1 train", "20/1 train"))
    [runs, workloads] = desk.json("open", "view.json")["charts"]
    assert runs["runs"] == desk.ids
    assert [(one["label"], set(one["value"])) for one in runs["series"]] == [
        ("20/1/1 train", {1.0}),
        ("20/1/2 train", {2.0}),
        ("20/2/1 train", {3.0}),
    ]
    means = {one["metric"]: (one["label"], one["runs"], set(one["value"])) for one in workloads["series"]}
    assert means == {
        "cpu_usage": ("20/1 train", desk.ids[:2], {1.5}),
        "threads": ("20/1 train", desk.ids[:2], {4.0}),
    }
    desk.bench("share", "20/1/1", "-m", "loss", "--align", "step", "-o", "loss.json")
    [along_steps] = desk.json("open", "loss.json")["charts"]
    assert along_steps["align"] == "step"
    # What is logged under a step ends it.
    assert [one["x"] for one in along_steps["series"]] == [list(range(1, 11))]


def test_deleted_runs_are_named_and_the_rest_is_shown(desk: Desk) -> None:
    _, second, third = desk.ids
    loss = {"runs": [third], "metrics": ["threads"], "scopes": ["instance"]}
    desk.write(
        "view.json",
        [{"runs": desk.ids[1:], "metrics": ["cpu_usage"]}, {"runs": [second], "metrics": ["threads"]}, loss],
    )
    desk.world.connection.execute("delete from runs where run_id = %s", (second,))
    output = desk.bench("open", "view.json", "-o", "page.html")
    assert f"! deleted runs: {second}\n" in output
    assert "! chart 3 is left out: " in output
    assert output.endswith("Wrote 1 chart to page.html\n")
    assert f"deleted runs: {second}" in desk.read("page.html")
    answer = desk.json("open", "view.json")
    assert (answer["deleted"], [chart["runs"] for chart in answer["charts"]]) == ([second], [[third]])
    assert len(answer["missing"]) == 1
    desk.write("lost.json", [{"runs": [second[:12], "f" * 12], "metrics": ["cpu_usage"]}])
    output = desk.bench("open", "lost.json", status=1)
    assert output == f"error: all runs of this view are deleted: {second[:12]}, ffffffffffff\n"
    assert sorted(one.name for one in desk.folder.iterdir()) == ["lost.json", "page.html", "view.json"]


def test_errors_are_reported_and_nothing_written(desk: Desk) -> None:
    (desk.folder / "report.json").write_text('{"panels": []}\n')
    share = ("share", "20", "-m")
    for words, expected in (
        ((*share, "cpu_usage", "-o", "report.json"), "report.json: not a view: that begins with"),
        ((*share, "cpu_usag", "-o", "new.json"), "these runs have no metric 'cpu_usag' (did you mean 'cpu_usage'?)"),
        ((*share, "loss", "--by", "row", "-o", "new.json"), "by: there is no 'row'"),
        ((*share, "loss", "-o", "no/new.json"), "there is no folder 'no'"),
    ):
        assert expected in desk.bench(*words, status=2)
    desk.write("view.json", [{"runs": desk.ids, "metrics": ["cpu_usage"]}, {"runs": desk.ids, "metrics": ["thread"]}])
    assert "view.json: charts[1]: these runs have no metric 'thread' (did you mean 'threads'?)" in desk.bench(
        "open", "view.json", status=2
    )
    assert "a page is a file that ends in .html" in desk.bench("open", "view.json", "-o", "page.svg", status=2)
    assert "leave out --grafana or -o" in desk.bench("open", "view.json", "-o", "page.html", "--grafana", status=2)
    assert desk.read("report.json") == '{"panels": []}\n'
    assert sorted(one.name for one in desk.folder.iterdir()) == ["report.json", "view.json"]


def test_a_view_is_a_link_to_grafana(desk: Desk) -> None:
    def chosen(*charts: dict[str, Any]) -> tuple[str, dict[str, list[str]]]:
        desk.write("view.json", charts)
        url = urlsplit(desk.json("open", "view.json", "--grafana")["url"])
        assert f"{url.scheme}://{url.netloc}" == "http://g:3000"
        return url.path, {name.removeprefix("var-"): some for name, some in parse_qs(url.query).items()}

    rows = desk.world.connection.execute("select workload_id::text from workloads order by workload").fetchall()
    here, other = (workload for (workload,) in rows)
    pair, third = desk.ids[:2], desk.ids[2]
    fixed = {"experiment": ["20"], "from": ["0"], "to": ["60000"]}
    assert chosen({"runs": pair, "metrics": ["cpu_usage", "loss"]}) == (
        "/d/bench-intra",
        {**fixed, "workload": [here], "run": pair, "metric": ["cpu_usage"], "software": ["loss"]},
    )
    assert chosen({"runs": desk.ids, "metrics": ["cpu_usage"], "by": "workload"}) == (
        "/d/bench-inter",
        {**fixed, "workload": [here, other], "metric": ["cpu_usage"]},
    )
    assert chosen({"runs": pair, "metrics": ["cpu_usage"]}, {"runs": [third], "metrics": ["threads"]}) == (
        "/d/bench-mixed",
        {
            **fixed,
            "workload": [here, other],
            "metric_1": ["cpu_usage"],
            "run_1": pair,
            "metric_2": ["threads"],
            "run_2": [third],
        },
    )
    desk.write("view.json", [{"runs": pair, "metrics": ["loss"], "align": "step"}])
    output = desk.bench("open", "view.json", "--grafana", status=2)
    assert "`bench dashboards push view.json` makes a dashboard of this view" in output
    desk.write("view.json", [{"runs": pair, "metrics": ["loss"], "from": "10"}])
    output = desk.bench("open", "view.json", "--grafana", status=2)
    assert "dashboards show whole runs: `bench open` shows a view of a part of them" in " ".join(output.split())


def test_a_page_opens_in_the_browser_of_whoever_sits_there(desk: Desk) -> None:
    desk.write("view.json", [{"runs": desk.ids, "metrics": ["cpu_usage"]}])
    seen = desk.folder / "seen"
    browser = desk.folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{seen}"\n')
    browser.chmod(0o755)
    displays = dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY"), "")
    for environment, opened in (({"BROWSER": str(browser)}, True), ({"BROWSER": ""}, False)):
        terminal = Terminal(
            [*COMMAND, "open", "view.json"], {**desk.environment, **displays, **environment}, desk.folder
        )
        terminal.wait()
        assert terminal.text.strip().endswith("Wrote 1 chart to view.html" + ", and opened it" * opened)
        assert (seen.read_text() if opened else None) == ((desk.folder / "view.html").as_uri() if opened else None)
        seen.unlink(missing_ok=True)
    assert not seen.exists()
