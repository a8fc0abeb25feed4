"""The client as a single file in a run."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypergauge.client.track import Track
from hypergauge.scheduler.launch.launch import client_folder
from hypergauge.scheduler.tracking.spans import read_spans


def test_it_does_nothing_outside_a_run(tmp_path: Path) -> None:
    with Track(None).phase("train"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_spans_nest_within_their_thread(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))

    def other() -> None:
        with track("elsewhere"):
            pass

    with track.phase("train"), track.epoch(3), track.step(7):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    spans = {span.name: span for span in read_spans(tmp_path / "spans")}  # the last line of a span holds its end
    assert spans["train"].parent_id is None
    assert spans["epoch 3"].parent_id == spans["train"].span_id
    assert spans["step"].parent_id == spans["epoch 3"].span_id
    assert spans["elsewhere"].parent_id is None
    assert (spans["step"].kind, spans["step"].step) == ("step", 7)
    assert all(span.ended_at is not None and span.ended_at >= span.started_at for span in spans.values())


def test_a_phase_is_written_at_its_start_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    with Track(str(path)).phase("train"):
        [begun] = read_spans(path)
        assert begun.ended_at is None
    with path.open("a") as file:
        file.write('{"id": "x", "par')
    assert len(list(read_spans(path))) == 2


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'stage'.* phase, epoch, step, span"):
        Track(None)("x", kind="stage")


def test_it_works_in_a_bare_interpreter_and_hides_our_packages(tmp_path: Path) -> None:
    client = client_folder(tmp_path / "home")
    assert sorted(path.name for path in client.iterdir()) == ["hypergauge", "radt"]
    script = (
        "from hypergauge import track\n"
        "with track('inner'): pass\n"
        "for name in ('collector', 'exporters', 'scheduler', 'sql', 'insight', 'dashboards'):\n"
        "    try: __import__(name)\n"
        "    except ImportError: pass\n"
        "    else: print(name)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(client), "BENCH_SPANS": str(tmp_path / "spans")}
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert json.loads((tmp_path / "spans").read_text())["name"] == "inner"


def test_a_step_may_be_any_number(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    with track.step(np.int64(3)), track("a\0b"):  # type: ignore[arg-type]
        pass
    spans = list(read_spans(tmp_path / "spans"))
    assert [(span.name, span.step) for span in spans] == [("ab", None), ("step", 3)]


def test_steps_have_what_was_counted_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    track = Track(str(path))

    def batches() -> Iterator[list[int]]:
        for _ in range(2):
            time.sleep(0.02)
            yield [1, 2, 3]

    for number, batch in enumerate(track.data(batches())):
        with track.step(number):
            track.count(samples=len(batch), flops=100)
            track.count(samples=1, tokens=7)
    with track.step(2):
        pass
    first, second, last = (json.loads(line) for line in path.read_text().splitlines())
    for step in (first, second):
        assert (step["samples"], step["tokens"], step["flops"]) == (4, 7, 100)
        assert step["data_wait"] >= 0.02
    # The end of the data was waited for, but it is no item.
    assert not {"samples", "tokens", "flops", "data_wait"} & last.keys()


def test_a_wait_that_a_loader_adds_itself_counts_once(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))

    def watched() -> Iterator[int]:
        for number in range(3):
            track.work.add(data_wait=10.0)
            yield number

    for number in track.data(watched()):
        with track.step(number):
            pass
    waits = [json.loads(line)["data_wait"] for line in (tmp_path / "spans").read_text().splitlines()]
    assert waits == [10.0] * 3


def test_measured_data_looks_like_the_original(tmp_path: Path) -> None:
    class Loader(list[int]):
        dataset = "digits"

    for track in (Track(str(tmp_path / "spans")), Track(None)):
        data = track.data(Loader([5, 6]))
        assert (len(data), list(data), list(data), data.dataset) == (2, [5, 6], [5, 6], "digits")  # type: ignore[arg-type, attr-defined]
        assert bool(track.data([])) is False
        assert copy.copy(data).dataset == "digits"  # type: ignore[attr-defined]
        with pytest.raises(ZeroDivisionError):
            list(track.data(1 // n for n in (1, 0)))
    assert list(Track(str(tmp_path / "spans")).data(n for n in range(3))) == [0, 1, 2]


def test_counting_outside_a_run_keeps_nothing() -> None:
    track = Track(None)
    track.count(samples=1)
    assert track.work.samples is None


def test_data_can_be_taken_one_by_one_and_by_index(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    batches: Any = track.data(iter("ab"))
    assert [next(batches), *batches] == ["a", "b"]
    assert track.work.data_wait is not None
    indexed: Any = track.data(["a", "b"])
    assert indexed[1] == "b"
