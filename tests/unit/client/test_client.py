"""The client as a single file in a run."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
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


def test_a_span_may_end_in_another_thread_than_it_began(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))

    def batches() -> Iterator[int]:
        with track("load"):
            yield 1
            yield 2

    source = batches()
    with track("outer"), ThreadPoolExecutor(1) as pool:
        next(source)
        assert pool.submit(list, source).result() == [2]
        assert not pool.submit(track.open_spans).result()
        with track("after"):
            pass
    spans = {span.name: span for span in read_spans(tmp_path / "spans")}
    assert spans["load"].parent_id == spans["after"].parent_id == spans["outer"].span_id
    assert not track.open_spans()


def test_spans_may_overlap_in_any_order(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    first, second, third = track("first"), track("second"), track("third")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    third.__enter__()
    second.__exit__(None, None, None)
    third.__exit__(None, None, None)
    third.__exit__(None, None, None)  # has ended
    spans = {span.name: span for span in read_spans(tmp_path / "spans")}
    assert spans["third"].parent_id == spans["second"].span_id
    assert spans["second"].parent_id == spans["first"].span_id


def test_a_span_may_be_shared_by_calls_within_another(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    span = track("shared")
    with span, span:
        pass
    inner, outer = read_spans(tmp_path / "spans")
    assert (inner.parent_id, outer.parent_id) == (outer.span_id, None)
    assert outer.started_at <= inner.started_at


def test_spans_nest_within_their_task(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))

    async def task(name: str, seconds: float) -> None:
        with track(name):
            await asyncio.sleep(seconds)
            with track(f"{name} inner"):
                await asyncio.sleep(seconds)

    async def tasks() -> None:
        with track("both"):
            await asyncio.gather(task("a", 0.02), task("b", 0.03))

    asyncio.run(tasks())
    spans = {span.name: span for span in read_spans(tmp_path / "spans")}
    for name in "ab":
        assert spans[name].parent_id == spans["both"].span_id
        assert spans[f"{name} inner"].parent_id == spans[name].span_id


def test_what_a_span_cannot_use_is_left_out_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise ZeroDivisionError

    monkeypatch.setenv("BENCH_TENSORS", str(tmp_path / "tensors"))
    track: Any = Track(str(tmp_path / "spans"))
    circular: list[Any] = []
    circular.append(circular)
    steps = [circular, circular, 2.5, "2", float("nan"), None, 10**5000, 3.0, True]
    for step in steps:
        with track.step(step):
            pass
    with track(Unprintable()), track.phase(Unprintable()):
        pass
    assert [span.step for span in read_spans(tmp_path / "spans")] == [None] * 6 + [3, 1]
    assert _gaps(tmp_path) == [
        "some numbers of steps: one is of type list, not a whole number",
        "some numbers of steps: one is of type float, not a whole number",
        "some numbers of steps: one is of type str, not a whole number",
        "some spans: ValueError in making a text of a name or number",
        "some spans: ZeroDivisionError in making a text of a name or number",
    ]


def _gaps(folder: Path) -> list[str]:
    return [json.loads(line)["gap"] for line in (folder / "tensors").read_text().splitlines()]


@pytest.mark.parametrize(
    ("count", "recorded"),
    [
        (3, 3.0),
        (True, 1.0),
        (Decimal("2.5"), 2.5),
        (Fraction(1, 2), 0.5),
        (np.float32(32), 32.0),
        (np.int64(7), 7.0),
        (np.array(3), 3.0),
        ("32", 32.0),
    ],
)
def test_any_number_counts(count: Any, recorded: float, tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    with track.step(0):
        track.count(samples=count)
        track.count(samples=count, tokens=count, flops=count)
    [step] = read_spans(tmp_path / "spans")
    assert (step.samples, step.tokens, step.flops) == (2 * recorded, recorded, recorded)


@pytest.mark.parametrize(
    "unusable", ["many", [1], np.ones(2), float("nan"), float("inf"), pytest.param(10**400, id="huge"), 1j, object()]
)
def test_what_does_not_count_is_left_out_and_told_once(
    unusable: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCH_TENSORS", str(tmp_path / "tensors"))
    track = Track(str(tmp_path / "spans"))
    for number in range(2):
        with track.step(number):
            track.count(samples=32)
            track.count(samples=unusable, tokens=unusable)
    assert [(step.samples, step.tokens) for step in read_spans(tmp_path / "spans")] == [(32, None)] * 2
    told = unusable if isinstance(unusable, float) else f"of type {type(unusable).__name__}"
    assert _gaps(tmp_path) == [f"some {name}: a count is {told}, not a finite number" for name in ("samples", "tokens")]
    assert capfd.readouterr() == ("", "")


def test_the_time_limit_of_a_script_ends_it_within_a_count_too(tmp_path: Path) -> None:
    class TimedOut(Exception):
        pass

    def expired(*_: object) -> None:
        raise TimedOut

    class Interrupted:
        """Object whose conversion the script's alarm interrupts, as one that waits for a GPU."""

        def convert(self) -> int:
            signal.raise_signal(signal.SIGALRM)
            return 1

        __float__ = __int__ = __str__ = convert  # type: ignore[assignment]

    track: Any = Track(str(tmp_path / "spans"))
    previous = signal.signal(signal.SIGALRM, expired)
    try:
        with pytest.raises(TimedOut):
            track.count(samples=Interrupted())
        for span in (track.step(Interrupted()), track(Interrupted())):
            with pytest.raises(TimedOut), span:
                pass
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_sum_of_counts_stays_finite(tmp_path: Path) -> None:
    track = Track(str(tmp_path / "spans"))
    with track.step(0):
        track.count(flops=1.5e308)
        track.count(flops=1.5e308)
    assert json.loads((tmp_path / "spans").read_text())["flops"] == 1.5e308


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
