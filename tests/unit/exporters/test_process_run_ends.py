"""Ends of runs in the exposition of the exporter ``process``."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.exporters.process import BURN, END, FINAL, Page, Start, folder, watch


def test_a_run_between_two_scrapes_has_totals(page: Page, run_id: str, tmp_path: Path) -> None:
    ended_at = time.time() - 5
    folder(tmp_path, run_id).write_end(replace(END, ended_at=ended_at))
    found, timestamps = page.read(run_id)
    assert found == {
        "start_time_seconds": 1,
        "end_time_seconds": ended_at,
        "cpu_seconds_total": 12.5,
        "read_bytes_total": 4096,
        "written_bytes_total": 8192,
        "peak_memory_bytes": 10_000_000_000,
    }
    assert timestamps == {None}, "dated lines would be out of order to Prometheus"


def test_an_unknown_peak_is_no_value(page: Page, run_id: str, tmp_path: Path) -> None:
    folder(tmp_path, run_id).write_end(replace(END, ended_at=time.time() - 5, max_rss_bytes=0))
    assert page.read(run_id)[0].keys() == FINAL - {"peak_memory_bytes"}


def test_live_metrics_stop_at_the_end_and_totals_do_not_fall(
    page: Page, python: Start, run_id: str, tmp_path: Path
) -> None:
    run_folder = folder(tmp_path, run_id)
    process = python(BURN + "burn(0.25); say(used()); sys.stdin.read()", BENCH_RUN_ID=run_id)
    live = watch(page, run_id, process)[-1]
    run_folder.write_end(replace(END, ended_at=time.time(), cpu_seconds=0.1, max_rss_bytes=1))
    final, _ = page.read(run_id)
    process.communicate()
    assert final.keys() == FINAL
    assert final["cpu_seconds_total"] == live["cpu_seconds_total"] >= 0.2
    assert final["peak_memory_bytes"] == live["peak_memory_bytes"] > 1
    assert final["written_bytes_total"] == 8192, "here the recorded end has more"


def test_the_end_is_exposed_for_a_minute(
    page: Page, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_at = time.time()
    folder(tmp_path, run_id).write_end(replace(END, ended_at=ended_at))
    monkeypatch.setattr("hypergauge.exporters.process.exporter.time.time", lambda: ended_at + 59.9)
    assert page.read(run_id)[0].keys() == FINAL
    monkeypatch.setattr("hypergauge.exporters.process.exporter.time.time", lambda: ended_at + 60.1)
    assert page.read(run_id)[0] == {}


def test_an_end_is_found_in_a_long_unchanged_folder(page: Page, run_id: str, tmp_path: Path) -> None:
    run_folder = folder(tmp_path, run_id)
    for path in (run_folder.path, run_folder.path.parent):
        os.utime(path, (0, 0))
    assert page.read(run_id)[0] == {}
    run_folder.write_end(replace(END, ended_at=time.time()))
    assert page.read(run_id)[0].keys() == FINAL


@pytest.mark.parametrize("content", ["", "[]", "{", json.dumps({"status": "finished"})])
def test_an_unreadable_end_affects_no_other_run(page: Page, tmp_path: Path, content: str) -> None:
    good, bad = uuid.uuid4().hex, uuid.uuid4().hex
    (folder(tmp_path, bad).path / "end.json").write_text(content)
    folder(tmp_path, good).write_end(replace(END, ended_at=time.time()))
    assert page.read(bad)[0] == {}
    assert page.read(good)[0].keys() == FINAL
