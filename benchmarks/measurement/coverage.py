"""Simulated coverage of the intervals and rates of false alarms that the documentation promises.

Each value is the worst of a design over ratios of the spreads, in per cent: of intervals the least coverage, of tests the most false
alarms. ``findings`` lists those that miss the promise by more than half a point, and the benchmark exits with 1 then. The simulated
attempts are independent: lognormal, or delays, which are exponential beyond a minimum.

An interval may cover more than promised. It has to where the spread of two or three attempts decides, which are hardly known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hypergauge.insight.calibration import BASELINE, PILOT, Repetition, blocks_needed, costs
from hypergauge.insight.regression import welch
from hypergauge.insight.sharing.ratio import half_width

__all__ = ["calibration_coverage", "delays", "gate_alarms", "gate_coverage", "lognormal", "measure", "ratio_coverage"]

Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int], float], Floats]

DRAWS = 100_000
CALIBRATIONS = 4000
ALPHA = 0.05
POINTS = 0.5
SEED = 20261128
COUNTS = ((2, 2), (3, 3), (5, 5), (2, 5), (5, 2), (3, 5), (2, 10), (10, 2), (3, 10), (10, 3), (5, 10))
# Spreads of an attempt as a share of its value: of the new ones or those beside others, and of the baseline.
SPREADS = ((0.02, 0.02), (0.02, 0.01), (0.01, 0.02), (0.06, 0.02), (0.02, 0.06), (0.2, 0.02), (0.02, 0.2), (0.16, 0.02))
# Of a set and of its members alone.
SUMS = ((3, 3, 3), (2, 2, 2), (5, 2, 2), (2, 5, 5), (3, 5, 5), (5, 5, 2))
# Half widths of intervals at which calibrations end, in standard deviations of the change within a block.
WITHIN = (0.2, 0.5, 0.7, 1.0)


def measure() -> dict[str, float | str]:
    """Return coverages and rates of false alarms in per cent."""
    random = np.random.default_rng(SEED)
    results: dict[str, float | str] = {}
    findings = []
    for name, promised, rate in (*_gates(random), *_ratios(random), *_calibrations(random)):
        results[name] = rate
        missed = rate - promised if name.startswith("alarms") else promised - rate
        if missed > POINTS:
            findings.append(f"{name} {rate:.1f} for {promised:g}")
    return {**results, "findings": "; ".join(findings)}


def lognormal(random: np.random.Generator, shape: tuple[int, int], spread: float) -> Floats:
    """Return lognormal times with a geometric mean of 1."""
    return np.exp(random.normal(0, spread, shape))


def delays(random: np.random.Generator, shape: tuple[int, int], spread: float) -> Floats:
    """Return times with a minimum of 1, to which most are close."""
    return 1 + random.exponential(spread, shape)


def gate_alarms(
    random: np.random.Generator, counts: tuple[int, int], spreads: tuple[float, float], noise: Noise = lognormal,
    *, alpha: float = ALPHA, draws: int = DRAWS,
) -> float:  # fmt: skip
    """Return the rate of false alarms of ``--fail-on`` where the true change is the threshold."""
    excess, margin = _logs(random, counts, spreads, noise, alpha, draws)
    return float((excess > margin).mean())


def gate_coverage(
    random: np.random.Generator, counts: tuple[int, int], spreads: tuple[float, float], noise: Noise = lognormal,
    *, alpha: float = ALPHA, draws: int = DRAWS,
) -> float:  # fmt: skip
    """Return the coverage of a gate's interval, which is `alpha` short of 1 on either side."""
    excess, margin = _logs(random, counts, spreads, noise, alpha, draws)
    return float((np.abs(excess) <= margin).mean())


def ratio_coverage(
    random: np.random.Generator, counts: Sequence[int], spreads: Sequence[float], noise: Noise = lognormal,
    *, draws: int = DRAWS,
) -> float:  # fmt: skip
    """Return the coverage of the interval of a mean relative to the sum of the others, which are 1, 2 and so on."""
    sizes = (1.5, *range(1, len(counts)))
    samples = [
        size * noise(random, (draws, count), spread) for size, count, spread in zip(sizes, counts, spreads, strict=True)
    ]
    # The mean of a distribution is that of many values.
    true = [
        size * float(noise(random, (1, 2_000_000), spread).mean()) for size, spread in zip(sizes, spreads, strict=True)
    ]
    means, variances = [one.mean(axis=1) for one in samples], [one.var(axis=1, ddof=1) for one in samples]
    error = np.log(means[0] / sum(means[1:])) - np.log(true[0] / sum(true[1:]))
    return float((np.abs(error) <= half_width(means, variances, counts)).mean())


def calibration_coverage(
    random: np.random.Generator, within: float, *, noise: Noise = lognormal, most: int | None = None,
    draws: int = CALIBRATIONS,
) -> float:  # fmt: skip
    """Return the coverage of the slow-down of a calibration that ends as ``bench calibrate`` does.

    Parameters
    ----------
    within
        Half width that the calibration aims at, in standard deviations of the change within a block.
    most
        Number of blocks after which time is up.
    """
    spread, slower = 0.01, 1.02
    held = 0
    for _ in range(draws):
        drift = 1 + 0.01 * np.sin(np.arange(PILOT) + random.random())
        base, mine = _block(random, noise, spread, drift)
        needed = min(blocks_needed({BASELINE: base, "all": mine}, within * spread * np.sqrt(2)), most or 10_000)
        later = 1 + 0.01 * np.sin(np.arange(PILOT, max(needed, PILOT)))
        more_base, more_mine = _block(random, noise, spread, later)
        blocks = {BASELINE: (base + more_base)[:needed], "all": (mine + more_mine)[:needed]}
        slowdown = costs({choice: [*some] for choice, some in _slower(blocks, slower).items()})[1].slowdown
        assert slowdown is not None
        assert slowdown.low is not None
        assert slowdown.high is not None
        held += slowdown.low <= slower - 1 <= slowdown.high
    return held / draws


def _gates(random: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    for counts in COUNTS:
        name = "v".join(map(str, counts))
        for noise in (lognormal, delays):
            spreads = SPREADS if noise is lognormal else ((0.02, 0.02), (0.2, 0.2))
            alarms = max(gate_alarms(random, counts, one, noise) for one in spreads)
            yield f"alarms_{noise.__name__}_{name}", 100 * ALPHA, 100 * alarms
            yield (
                f"gate_interval_{noise.__name__}_{name}", 100 - 200 * ALPHA,
                100 * min(gate_coverage(random, counts, one, noise) for one in spreads),
            )  # fmt: skip


def _ratios(random: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    for counts in (*COUNTS, *SUMS):
        spreads = [(first, *itertools.repeat(rest, len(counts) - 1)) for first, rest in SPREADS]
        if len(counts) > 2:
            spreads += [(0.02, 0.02, 0.2), (0.02, 0.2, 0.02)]
        for noise, some in ((lognormal, spreads), (delays, [(0.02,) * len(counts), (0.2,) * len(counts)])):
            rate = min(ratio_coverage(random, counts, one, noise) for one in some)
            yield f"ratio_{noise.__name__}_{'v'.join(map(str, counts))}", 95.0, 100 * rate


def _calibrations(random: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    for within in WITHIN:
        yield f"calibrate_{within:g}", 95.0, 100 * calibration_coverage(random, within)
    yield "calibrate_delays", 95.0, 100 * calibration_coverage(random, 0.5, noise=delays)
    for most in (2, 4, 12):
        yield f"calibrate_out_of_time_{most}", 95.0, 100 * calibration_coverage(random, 0.2, most=most)


def _logs(
    random: np.random.Generator,
    counts: tuple[int, int],
    spreads: tuple[float, float],
    noise: Noise,
    alpha: float,
    draws: int,
) -> tuple[Floats, Floats]:
    """Return the observed rise beyond the true one, in logarithms, and the margin of a shown one."""
    new, old = (np.log(noise(random, (draws, n), spread)) for n, spread in zip(counts, spreads, strict=True))
    # Both sides have the same distribution where it is not symmetric, so the true rise is 0.
    excess = new.mean(axis=1) - old.mean(axis=1)
    return excess, welch.margin((new.var(axis=1, ddof=1), old.var(axis=1, ddof=1)), counts, alpha)


def _block(
    random: np.random.Generator, noise: Noise, spread: float, drift: Floats
) -> tuple[list[Repetition], list[Repetition]]:
    base, mine = noise(random, (2, len(drift)), spread) * drift
    return [Repetition(1.0, float(one), {}, 0.0, 0.0) for one in base], [
        Repetition(1.0, float(one), {}, 0.0, 0.0) for one in mine
    ]


def _slower(blocks: dict[str, list[Repetition]], factor: float) -> dict[str, list[Repetition]]:
    return {
        choice: [
            Repetition(one.duration, (one.step_seconds or 0.0) * (factor if choice != BASELINE else 1.0), {}, 0.0, 0.0)
            for one in some
        ]
        for choice, some in blocks.items()
    }
