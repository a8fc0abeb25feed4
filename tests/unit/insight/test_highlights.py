"""Highlights of trainings with known phases, and of curves without any."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from hypergauge.insight.highlights import lines, most_significant
from hypergauge.insight.highlights.formatting import Line
from hypergauge.insight.highlights.phases import phases, scaled
from hypergauge.insight.highlights.segments import edges
from hypergauge.insight.highlights.signals import Signals
from hypergauge.sql.queries.report import Phase as Tracked
from tests.support.data.telemetry import GIB, MIB, coarser, measured, signals

ROUND = [("training", 30.0), ("evaluation", 4.0)]


def detected(found: Signals, tracked: Sequence[Tracked] = ()) -> list[Line]:
    return most_significant(lines(found, tracked), found.duration)


def kinds(found: Signals) -> list[str]:
    return [one.kind for one in detected(found)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("parts", "step"),
    [
        ([("initialization", 2), ("training", 3)], 1),
        ([("initialization", 0.5), ("training", 4.5)], 0.1),
        ([("initialization", 3), ("training", 20), ("evaluation", 4)], 1),
        ([("initialization", 12), ("training", 60), ("pause", 5), ("training", 100), ("checkpoint", 3)], 1),
        ([("initialization", 40), ("training", 1200), ("checkpoint", 20)], 1),
        ([("initialization", 300), ("training", 20_000), ("pause", 300), ("training", 1000)], 5.4),
        ([("training", 300), ("checkpoint", 10), ("training", 300)], 1),
    ],
)
def test_phases_begin_within_two_points_of_the_truth(parts: list[tuple[str, float]], step: float, seed: int) -> None:
    found = detected(signals(measured(parts, seed=seed, step=step), step=step))
    expected = [
        name if at < len(parts) - 1 or name != "evaluation" else "training" for at, (name, _) in enumerate(parts)
    ]
    assert [one.kind for one in found if one.kind != "change"] == list(dict.fromkeys(expected)) or [
        one.kind for one in found
    ] == expected
    starts = np.cumsum([0, *(seconds for _, seconds in parts)])
    for start in starts[:-1]:
        assert min(abs(one.start - start) for one in found) <= 2 * step
    assert found[-1].end == pytest.approx(starts[-1], abs=step)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [8, 60, 600, 3600])
def test_a_run_in_which_nothing_changes_is_one_line(count: int, seed: int) -> None:
    [line] = detected(signals(measured([("training", count)], seed=seed)))
    assert (line.start, line.end, line.kind) == (0, count, "steady")
    assert re.fullmatch(
        r"nothing changed: GPU at 9[123]%, GPU power 3\d\d W, CPU 2.\d cores, memory 6.0 GiB.*", line.text
    )


@pytest.mark.parametrize(("memory", "most"), [(0.0, 0.01), (0.3, 0.02), (0.6, 0.06)])
def test_noise_is_seldom_cut(memory: float, most: float) -> None:
    """At most a share `most` of 400 curves of pure noise, independent or autocorrelated by `memory`, is cut."""
    cut = 0
    for seed in range(400):
        random = np.random.default_rng(seed)
        noise = random.normal(size=(300, 4)) * (1.0 + seed % 4)
        for at in range(1, len(noise)):
            noise[at] += memory * noise[at - 1]
        cut += len(edges(noise)) > 2
    assert cut <= most * 400


@pytest.mark.parametrize("size", [3.0, 5.0])
def test_a_step_of_three_times_the_noise_is_found(size: float) -> None:
    found = 0
    for seed in range(50):
        points = np.random.default_rng(seed).normal(size=(400, 4))
        points[150:, 2] += size
        found += any(abs(edge - 150) <= 2 for edge in edges(points))
    assert found >= 45


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_drift_is_no_change_but_is_reported(seed: int) -> None:
    values = measured([("initialization", 20), ("training", 1800)], seed=seed)
    values["memory_used"] += np.linspace(0, 20 * GIB, 1820)
    values["gpu_utilization"] -= np.linspace(0, 0.3, 1820)
    found = detected(signals(values))
    assert [one.kind for one in found] == ["initialization", "training", "trend", "trend"]
    assert found[2].text.startswith("memory grew all the time, from 6")
    assert found[3].text.startswith("GPU fell all the time, from 9")


def test_unmeasured_intervals_are_reported_and_move_nothing() -> None:
    kept = np.ones(600, np.bool_)
    kept[200:260] = False
    found = detected(
        signals(measured([("initialization", 20), ("training", 300), ("pause", 80), ("training", 200)]), kept=kept)
    )
    assert [(one.kind, round(one.start), round(one.end)) for one in found] == [
        ("initialization", 0, 20), ("training", 20, 320), ("gap", 200, 260), ("pause", 320, 400), ("training", 400, 600),
    ]  # fmt: skip
    assert found[2].text == "nothing was measured for 1 min"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("times", "training", "evaluation", "step"), [(12, 30, 4, 1), (5, 10, 5, 1), (60, 20, 3, 1), (32, 600, 60, 5.4), (40, 2, 0.5, 0.1)]
)  # fmt: skip
def test_what_comes_time_and_again_is_folded(
    times: int, training: float, evaluation: float, step: float, seed: int
) -> None:
    parts = [
        ("initialization", 12.0),
        *[("training", training), ("evaluation", evaluation)] * times,
        ("checkpoint", 50 * step),
    ]
    found = detected(signals(measured(parts, seed=seed, step=step), step=step))
    assert [one.kind for one in found] == ["initialization", "repetition", "checkpoint"]
    assert found[1].start == pytest.approx(12, abs=2 * step)
    counted = re.fullmatch(r"(\d+) times: (.*) of training \(.*\), (.*) of evaluation \(.*\)", found[1].text)
    assert counted is not None
    assert int(counted[1]) == times
    assert seconds(counted[2]) == pytest.approx(training, abs=2 * step)
    assert seconds(counted[3]) == pytest.approx(evaluation, abs=2 * step)


@pytest.mark.parametrize("seed", range(3))
def test_points_that_are_of_two_phases_are_no_phase(seed: int) -> None:
    parts = [("initialization", 120.0), *[("training", 1000.0), ("evaluation", 60.0)] * 20, ("checkpoint", 180.0)]
    values = measured(parts, seed=seed)
    step = 21_500 / 3989
    assert kinds(signals(coarser(values, 3989), step=step)) == ["initialization", "repetition", "checkpoint"]


def seconds(words: str) -> float:
    units = {"s": 1, "min": 60, "h": 3600}
    return sum(float(value) * units[unit] for value, unit in re.findall(r"([\d.]+) (\w+)", words))


def test_repetitions_within_repetitions() -> None:
    rounds = [*[("training", 30.0), ("evaluation", 6.0)] * 5, ("checkpoint", 8.0)]
    [start, line] = detected(signals(measured([("initialization", 12), *rounds * 6])))
    assert start.kind == "initialization"
    plain = re.sub(r" \([A-Z][^()]*\)", "", line.text)
    assert plain == "6 times: (5 times: 30 s of training, 6 s of evaluation), 8 s of checkpoint"
    assert "disk writes 400 MiB/s" in line.text


def test_a_round_that_took_longer_stands_out() -> None:
    parts = [*ROUND * 5, ("training", 80.0), ("evaluation", 4.0), *ROUND * 5]
    off = [one for one in detected(signals(measured(parts))) if one.kind == "outlier"]
    assert [one.text for one in off] == ["training 6 of 11 took 1 min 20 s, usually 30 s"]
    assert off[0].start == pytest.approx(170, abs=2)


def test_a_level_that_stays_is_a_change_and_one_that_goes_back_is_off() -> None:
    values = measured([("training", 600)])
    values["gpu_power"][300:] -= 100
    assert [(one.kind, round(one.start), one.text) for one in detected(signals(values))[1:]] == [
        ("change", 300, "GPU power down to 210 W from 310 W")
    ]
    values = measured([("training", 600)])
    values["gpu_power"][300:320] -= 100
    assert [(one.kind, round(one.start), one.text) for one in detected(signals(values))[1:]] == [
        ("outlier", 300, "for 20 s GPU power down to 210 W from 310 W")
    ]


def test_moments_that_are_far_off_are_one_line_however_many_they_are() -> None:
    values = measured([("initialization", 20), ("training", 580)])
    values["gpu_utilization"][[100, 200, 300, 400]] = 0
    values["gpu_power"][[100, 200, 300, 400]] = 80
    values["disk_write"][35::30] = 50 * MIB
    off = [one for one in detected(signals(values)) if one.kind == "outlier"]
    assert re.fullmatch(r"19 moments, every 30 s: disk writes up to 50 MiB/s from \d+ KiB/s", off[0].text)
    assert re.fullmatch(
        r"4 moments, every 1 min 40 s: GPU down to 0% from 92%, GPU power down to 80 W from 3\d\d W", off[1].text
    )


def test_ten_lines_and_one_of_what_is_left_out() -> None:
    random = np.random.default_rng(1)
    parts = [("initialization", 10.0)]
    for _ in range(12):
        parts += [
            ("training", float(random.integers(30, 90))),
            (str(random.choice(["pause", "checkpoint", "evaluation"])), 8.0),
        ]
    found = detected(signals(measured(parts)))
    assert len(found) == 11
    assert found[-1].kind == "rest"
    assert re.match(r"less significant: ", found[-1].text)
    assert [one.start for one in found[:-1]] == sorted(one.start for one in found[:-1])


@pytest.mark.parametrize("seed", range(10))
def test_what_is_found_agrees_with_what_was_tracked(seed: int) -> None:
    """Without spans, detection finds the phases for 95 % of the time. With spans, their names are added."""
    random = np.random.default_rng(seed)
    parts = [("initialization", float(random.integers(4, 40)))]
    for _ in range(random.integers(3, 9)):
        parts += [("training", float(random.integers(25, 90))), ("evaluation", float(random.integers(5, 12)))]
    parts.append(("checkpoint", 6.0))
    curves = signals(measured(parts, seed=seed, noise=1.5))
    points = scaled(curves)
    found = phases(curves, points, edges(points))
    truth = np.concatenate([np.full(int(length), name) for name, length in parts])
    ours = np.concatenate([np.full(one.end - one.first, one.kind) for one in found])
    assert (truth == ours).mean() >= 0.95
    ends = np.cumsum([length for _, length in parts])
    names = {"initialization": "load", "training": "fit", "evaluation": "validate", "checkpoint": "checkpoint"}
    tracked = [
        Tracked("", names[name], float(end - length), length) for (name, length), end in zip(parts, ends, strict=True)
    ]
    text = "\n".join(one.text for one in detected(curves, tracked))
    assert "initialization (load): GPU at" in text
    assert "of training (fit) (" in text or "training (fit): " in text
    assert "checkpoint: GPU at" in text


def test_a_run_without_a_gpu_is_detected_by_its_cpu() -> None:
    levels = {
        "initialization": {"cpu_usage": 0.3, "memory_used": 0.2 * GIB},
        "training": {"cpu_usage": 3.9, "memory_used": 1.0 * GIB},
        "evaluation": {"cpu_usage": 2.0, "memory_used": 1.0 * GIB},
    }
    found = detected(signals(measured([("initialization", 6), *ROUND * 4], levels=levels), scope="host"))
    assert [one.kind for one in found] == ["initialization", "repetition"]
    assert found[0].text.startswith("initialization: CPU (host) 0.3 cores, memory (host) 20")


def test_the_command_starts_without_what_finds_changes() -> None:
    code = "import hypergauge.cli, sys; sys.exit('ruptures' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
