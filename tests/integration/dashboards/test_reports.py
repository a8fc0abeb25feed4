"""Reports in each flavour, and in a real browser: by keyboard, on a telephone, on paper."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from hypergauge.core.errors import NoData
from hypergauge.dashboards.report.report import render
from hypergauge.insight.part import Part
from hypergauge.insight.report import Report, report
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from tests.support.browser import Browser, browser
from tests.support.data.trainings import health
from tests.support.world import World

SECONDS = 60
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MANIFEST = {
    "manifest.json": json.dumps(
        {
            "name": "narrow", "directory": "/data/project", "image": None, "python": {"executable": "python3", "version": "3.12.1"},
            "git": {"root": "/data/project", "branch": "main", "commit": "0123456789abcdef"},
            "hardware": {"host": "node1", "cpu": "A processor", "memory_bytes": 2**34, "gpus": [{"name": "H100"}, {"name": "H100"}]},
        }
    ),
    "requirements.lock": "numpy==2.4.0\n",
    "git.diff": "-a\n+<b>\n",
}  # fmt: skip


@pytest.fixture
def measured(world: World) -> World:
    """Two networks alone and then side by side on one GPU, and a fifth run that has not been measured and failed."""
    start = time.time() // 600 * 600 - 7200 + 7.25
    for workload, position, name, begin in (
        (1, 1, "narrow", 0),
        (2, 1, "wide", 100),
        (3, 1, "narrow", 200),
        (3, 2, "wide", 200),
    ):
        run(world, start + begin, workload, position, name)
    failed = world.run(start + 300, workload=4, name="<b>broken</b>")
    world.end(failed, start + 300, start + 301, "failed")
    world.connection.execute(
        "update runs set reason = 'exit status 1', profilers = 'nsys' where run_id = %s", (failed,)
    )
    world.connection.execute(
        "insert into rule_firings select run_id, 'low_gpu_utilization', started_at, ended_at, 'warning', '{\"p95\": 0.3}'"
        " from runs where name = 'narrow'"
    )
    world.refresh()
    return world


def run(world: World, start: float, workload: int, position: int, name: str) -> str:
    run_id = world.run(
        start, start + SECONDS, workload=workload, position=position, name=name, command=name, gpu="GPU-1"
    )
    times = [start + at + 1 for at in range(SECONDS)]
    world.write(
        world.gauge("bench_process_cpu_seconds_total", times, [1.5] * SECONDS, {"run_id": run_id}, "process"),
        world.gauge("bench_gpu_sm_active_ratio", times, [0.5] * SECONDS, {"UUID": "GPU-1"}, "nvml"),
    )
    logged = [SoftwareMetric("loss", step, start + 10 * step, 2.0 / (step + 1)) for step in range(6)]
    store_software_metrics(world.connection, run_id, logged)
    spans = [
        SpanRecord("a", None, "load", "phase", None, start, start + 10, 1, "main"),
        SpanRecord("b", None, "train", "phase", None, start + 10, start + SECONDS, 1, "main"),
        *(
            SpanRecord(f"s{at}", "b", "step", "step", at, start + 10 + 5 * at, start + 15 + 5 * at, 1, "main")
            for at in range(10)
        ),
    ]
    store_spans(world.connection, run_id, spans)
    return run_id


def page(found: Report, **records: dict[str, str]) -> str:
    return render(found, records, "20 digits", NOW)


def test_a_report_shows_everything_there_is(measured: World) -> None:
    measured.connection.execute(
        "insert into jobs (job, executor, native_id, workload_id) select 'j', 'slurm', '7', workload_id from runs limit 1"
    )
    measured.connection.execute("update runs set job = 'j' where name = 'narrow'")
    measured.connection.execute(
        "insert into accounting select run_id, '7.1', 'COMPLETED', 60, 90, 2 ^ 30 from runs where name = 'narrow' limit 1"
    )
    found = report(measured.connection, ["20"])
    assert [run.label for run in found.runs] == ["20/1/1", "20/2/1", "20/3/1", "20/3/2", "20/4/1"]
    assert [one.by for one in found.comparisons] == ["run", "workload"]
    assert [(one.by, one.metrics) for one in found.charts] == [
        ("run", ("cpu_usage", "gpu_sm_active", "loss")),
        ("workload", ("cpu_usage", "gpu_sm_active", "loss")),
    ]
    assert any("Workload 20/3 took 60.0 s" in sentence for sentence in found.verdict)
    first = found.runs[0].run_id
    assert [(one.name, one.start, one.seconds) for one in found.phases[first]] == [("load", 0, 10), ("train", 10, 50)]
    assert [(one.kind, one.n, one.p50) for one in found.steps[first]] == [("step", 10, 5)]
    assert [one.rule for one in found.findings[first]] == ["low_gpu_utilization"]
    assert [one.text for one in found.highlights[first]] == ["nothing changed: SMs at 50%, CPU 1.5 cores"]
    assert found.qualities[first].coverage == pytest.approx(1, abs=0.05)
    made = page(found, **{first: MANIFEST})
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", made.split("<script>")[0]))
    for words in (
        "5 runs in 4 workloads: 4 finished, 1 failed.", "Not finished 20/4/1", "low_gpu_utilization in 2 of 5 runs", "20/4/1 ◆ failed: exit status 1", "low_gpu_utilization", "p95 0.3",
        "20/1/1 narrow 0 s 1:00 nothing changed: SMs at 50%, CPU 1.5 cores",
        "A processor", "16.0 GiB", "2 x H100", "0123456789abcdef", "No manifest of 20/2/1, 20/3/1, 20/3/2, 20/4/1 ◆",
        "slurm 7.1 COMPLETED 1:00 1:30 1.0 GiB", "20/4/1 ran under a profiler (nsys)", "Slowdowns by sharing", "slowdown of beside narrow beside wide", "1.00x", "values as of 2026-01-02 03:04:05 UTC", "numpy==2.4.0",
    ):  # fmt: skip
        assert words in text
    assert "<b>" not in made
    assert "&lt;b&gt;broken" in made


def test_a_report_of_one_run_compares_nothing(measured: World) -> None:
    found = report(measured.connection, ["20/1/1"], ["loss"])
    assert [one.by for one in found.comparisons] == ["run"]
    assert [(one.by, one.metrics) for one in found.charts] == [("run", ("loss",))]


def test_a_report_names_what_was_not_measured(measured: World) -> None:
    found = report(measured.connection, ["20/4"])
    assert [one.coverage for one in found.qualities.values()] == [0]
    made = page(found)
    assert "These runs have no measurements." in made
    assert "No rule has fired" in made
    world_run = measured.run(time.time(), experiment=30)
    measured.connection.execute("update runs set started_at = null, status = 'pending' where run_id = %s", (world_run,))
    with pytest.raises(NoData):
        report(measured.connection, ["30"])


def test_a_report_on_a_part_says_so_and_has_its_values(measured: World) -> None:
    found = report(measured.connection, ["20"], part=Part(30, 45, "train"))
    labels = ["20/1/1", "20/2/1", "20/3/1", "20/3/2"]
    assert [one.label for one in found.comparisons[0].entries] == labels, "and not the run that failed at once"
    for entry in found.comparisons[0].entries:
        assert entry.values["duration_seconds"] == pytest.approx(15)
        assert entry.values["cpu_seconds"] == pytest.approx(1.5 * 15)
    assert {(one.metric, one.x[0], one.x[-1]) for one in found.charts[0].series if one.unit} == {
        ("cpu_usage", 30, 44),
        ("gpu_sm_active", 30, 44),
    }
    first = found.runs[0].run_id
    assert [one.name for one in found.phases[first]] == ["train"]
    assert [(one.kind, one.n) for one in found.steps[first]] == [("step", 3)]
    made = page(found)
    assert "This report is on a part of each run: phase train, from 30 s to 45 s." in made
    assert "Fastest" not in made
    assert "is on a part" not in page(report(measured.connection, ["20"]))
    before = report(measured.connection, ["20/1"], part=Part(None, 5))
    assert before.steps == {}
    assert before.step_durations is None


def test_a_report_has_a_map_of_the_cores_of_a_host(measured: World) -> None:
    """Cores are in the order of their numbers, and their modes are added up."""
    run = report(measured.connection, ["20/1/1"]).runs[0]
    assert run.started_at
    start = run.started_at.timestamp()
    times = [start + at + 0.5 for at in range(SECONDS) if not 20 <= at < 40]
    busy = {("0", "user"): 0.75, ("0", "system"): 0.25, ("10", "user"): 0.0, ("2", "user"): 0.5}
    measured.write(
        *(
            measured.gauge("node_cpu_seconds_total", times, [value] * len(times), {"cpu": cpu, "mode": mode})
            for (cpu, mode), value in busy.items()
        )
    )
    found = report(measured.connection, ["20/1/1"])
    [one] = found.cores
    assert one.names == ("0", "2", "10")
    assert (one.start, one.step, one.end) == (0, 1, SECONDS)
    for row, share in zip(one.shares, (1.0, 0.5, 0.0), strict=True):
        assert set(row[:20]) == set(row[40:]) == {share}
        assert np.isnan(row[20:40]).all()
    over = replace(found, cores=(replace(one, shares=one.shares * 1.01),))
    assert "busy on average; core 0 most, 100%." in page(over), "of the last sample, which ends with the run"
    made = page(found)
    assert "3 cores, 50% busy on average; core 0 most, 100%. Across: time since the start (s)." in made
    assert made.count("data:image/png;base64,") == 1
    [part] = report(measured.connection, ["20/1/1"], part=Part(50)).cores
    assert (part.start, part.shares.shape) == (50, (3, 10))
    assert "CPU cores" not in page(report(measured.connection, ["20/2/1"])), "which were measured in another run alone"


def test_a_report_has_the_health_of_a_training(measured: World) -> None:
    first, second, *_ = report(measured.connection, ["20"]).runs
    assert "Losses and tensors" not in page(report(measured.connection, ["20"])), "where no run has any"
    assert first.started_at
    start = first.started_at.timestamp()
    health(measured.connection, first.run_id, start, SECONDS, steps=30)
    found = report(measured.connection, ["20"])
    assert list(found.trainings) == [first.run_id]
    lines = {one.what: one for one in found.trainings[first.run_id]}
    assert list(lines) == [
        "loss", "gradients: norm of all", "gradients: smallest norm of a tensor", "gradients: greatest norm of a tensor",
        "weights: norm of all", "weights: smallest update ratio", "weights: greatest update ratio", "relu: greatest share of zeros",
    ]  # fmt: skip
    loss = lines["loss"]
    assert (loss.last < 0.6, loss.worst >= loss.first > 2, loss.tensor, len(loss.values)) == (True, True, "", 30)
    zeros = lines["relu: greatest share of zeros"]
    assert (zeros.tensor, zeros.unit, zeros.worst > 0.7) == ("encoder.3.relu", "ratio", True)
    made = page(found)
    assert made.count("<polyline") == len(lines)
    assert 'href="#training"' in made
    part = report(measured.connection, ["20/1"], part=Part(30)).trainings[first.run_id]
    assert {len(one.values) for one in part} == {15}
    assert min(one.worst_at for one in part) >= 30
    measured.connection.execute(
        "update tensor_steps set nonfinite[3] = 0.5 where tensor_set like 'weights%' and step = 100"
    )
    [bad] = [one for one in report(measured.connection, ["20/1"]).trainings[first.run_id] if "NaN" in one.what]
    assert (bad.first, bad.worst, round(bad.worst_at)) == (0, 0.5, round(11 * SECONDS / 31))
    assert second.run_id not in found.trainings


def test_a_histogram_of_steps_is_not_stretched_by_the_longest(measured: World) -> None:
    run = report(measured.connection, ["20/1/1"]).runs[0]
    assert run.started_at
    start = run.started_at.timestamp()
    spans = [
        SpanRecord(f"t{at}", None, "step", "step", at, start, start + seconds, 2, "main")
        for at, seconds in enumerate([*(4 + 0.01 * at for at in range(200)), 55])
    ]
    store_spans(measured.connection, run.run_id, spans)
    found = report(measured.connection, ["20/1", "20/2"]).step_durations
    assert found
    assert [sum(one.counts) for one in found.runs] == [208, 10]
    assert found.first == pytest.approx(4)
    assert found.first + found.width * len(found.runs[0].counts) == pytest.approx(5.98, abs=0.03)
    assert [(one.longer, one.longest) for one in found.runs] == [(3, 55), (0, 5)]
    text = page(report(measured.connection, ["20/1", "20/2"]))
    assert "Not drawn, since longer than 99% of the steps: 20/1/1: 3, up to 55.0 s." in text


@pytest.fixture
def opened(measured: World, tmp_path: Path) -> Iterator[Browser]:
    """The report of all runs, in a browser; in the end there are no console errors."""
    found = report(measured.connection, ["20"])
    path = tmp_path / "report.html"
    path.write_text(page(found, **{found.runs[0].run_id: MANIFEST}))
    (tmp_path / "browser").mkdir()
    with browser(tmp_path / "browser") as one:
        one.screen(1200)
        one.open(path)
        yield one
        assert one.requests == []
        assert one.complaints == []


# Of each text on the page the contrast to the ground that it stands on, where that is below what WCAG's AA requires.
CONTRAST = """
    (() => {
        const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
        const ground = (one) => {
            for (; one; one = one.parentElement) {
                const color = numbers(getComputedStyle(one).backgroundColor);
                if (color.length < 4 || color[3] > 0) return color;
            }
        };
        const poor = [];
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const one = texts.currentNode.parentElement;
            if (!texts.currentNode.textContent.trim() || ["SCRIPT", "NOSCRIPT"].includes(one.tagName)) continue;
            const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
            if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(texts.currentNode.textContent.trim());
        }
        return poor;
    })()"""


def test_a_report_is_read_in_a_browser(opened: Browser) -> None:
    assert opened.run("document.querySelectorAll('canvas').length") == 7
    steps = "[...document.querySelectorAll('#phases .legend tbody tr')].map((one) => one.cells[1].textContent)"
    assert opened.run(steps) == ["10"] * 4, "the sum of a histogram"
    headings = opened.run("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings)), "no level is left out"
    assert opened.run("[...document.querySelectorAll('table:not(.legend)')].every((one) => one.caption)")
    assert opened.run("[...document.querySelectorAll('thead th, tbody th')].every((one) => one.scope)")
    links = opened.run("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert opened.run(f"{links}.every((link) => document.querySelector(link))"), "every link leads somewhere"
    assert opened.run(CONTRAST) == []
    opened.screen(1200, dark=True)
    assert opened.run(CONTRAST) == []


def test_a_report_is_read_by_keyboard(opened: Browser) -> None:
    opened.press("Tab", "Enter")
    assert opened.run("location.hash") == "#content", "past what stands above it"
    seen = []
    for _ in range(30):
        opened.press("Tab")
        seen.append(
            opened.run("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()")
        )
    assert seen[:4] == ["Not finished", "Sharing", "Rules", "Read with care"]
    assert "CPU usage (cores) over time since the start (s)" in seen
    opened.run("document.querySelector('.panel').focus()")
    opened.press("ArrowRight")
    assert opened.run("document.querySelector('.where').textContent").startswith("at 0.")


def test_a_report_fits_a_telephone(opened: Browser) -> None:
    opened.screen(375, 700, mobile=True)
    assert opened.run("document.documentElement.scrollWidth") <= 375
    assert opened.run("Math.max(...[...document.querySelectorAll('canvas')].map((one) => one.clientWidth))") <= 375


def test_a_report_prints(opened: Browser) -> None:
    assert opened.pdf().count(b"/Type /Page\n") >= 2
    opened.call("Emulation.setEmulatedMedia", media="print")
    opened.frame()
    hidden = "[...document.querySelectorAll('nav, .tools, .legend input')].every((one) => !one.checkVisibility())"
    assert opened.run(hidden), "what paper cannot do is not on it"
    assert opened.run("document.querySelectorAll('canvas')[5].checkVisibility()")
