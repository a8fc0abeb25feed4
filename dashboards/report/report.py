"""Report of an experiment on one page that works offline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hypergauge import __version__
from hypergauge.core.evidence import evidence_text
from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.ledger.page import ledger_picture
from hypergauge.dashboards.plots.page import chart_data, environment
from hypergauge.dashboards.plots.panels import PROFILED, lay_out
from hypergauge.dashboards.report import tables as report_tables
from hypergauge.dashboards.report import training
from hypergauge.dashboards.report.cores import SCALE as SCALE_OF_CORES
from hypergauge.dashboards.report.cores import core_map
from hypergauge.dashboards.report.durations import lay_out_durations
from hypergauge.dashboards.report.flames import flame_pictures
from hypergauge.dashboards.report.notes import chart_notes, ledger_notes, notes
from hypergauge.dashboards.report.results import results
from hypergauge.dashboards.shades import SCALE, shade
from hypergauge.dashboards.terminal import formatting, sharing, tables
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.notes import shortened
from hypergauge.insight.report import MOST_MAPS, Report
from hypergauge.insight.sharing.collocation import advice
from hypergauge.sql.queries.report import Device
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["render"]

Manifests = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of a phase; `left` and `width` are shares of the longest run's duration."""

    name: str
    left: float
    width: float
    seconds: float
    color: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Common manifest of some runs.

    Attributes
    ----------
    facts
        Names and values of properties of host and code.
    packages, diff
        Content of the files; empty for a missing file.
    """

    labels: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    packages: str
    diff: str


def render(found: Report, manifests: Manifests, title: str, now: datetime) -> str:
    """Return the page.

    Parameters
    ----------
    manifests
        Files of the runs' manifests by run id and file name, without the unavailable ones.
    now
        Time of the queries.
    """
    layouts = [
        (chart, replace(lay_out(chart), notes=tuple(texts)))
        for chart, texts in zip(found.charts, chart_notes(found.charts, ledger_notes(found)), strict=True)
    ]
    labels = {run.run_id: _label(run) for run in found.runs}
    titles = {run.run_id: _label(run, run.name) for run in found.runs}
    durations = lay_out_durations(found.step_durations) if found.step_durations else None
    devices = {run_id: _devices(some) for run_id, some in found.devices.items()}
    sheets = [sheet(one) for one in found.comparisons]
    return environment().get_template("report.html.j2").render(
        title=title,
        report=found,
        summary=_summary(found),
        results=results(found),
        now=now,
        version=__version__,
        labels=labels,
        titles=titles,
        runs_table=report_tables.runs(found, labels, devices),
        qualities=report_tables.qualities(found, titles),
        accounted=[run for run in found.runs if run.accounting],
        sheets=[(one.by, report_tables.comparison(one)) for one in sheets],
        notices=notes(found),
        notes=dict.fromkeys(note for sheet in sheets for note in sheet.notes),
        grids=sharing.grids(found.interference),
        scale=[(shade(slowdown), label) for slowdown, label in SCALE.items()],
        shortened=shortened,
        sharing=[sharing.slowdowns(found.interference), sharing.outcomes(found.interference)],
        sharing_notes=list(sharing.notes(found.interference)),
        advice=advice(found.interference),
        ledger=ledger_picture(found.ledger) if found.ledger else None,
        charts=[(chart, layout, chart_data(layout)) for chart, layout in layouts],
        core_maps=[core_map(one) for one in found.cores],
        core_scale=list(SCALE_OF_CORES.items()),
        more_cores=len(found.cores) == MOST_MAPS < len(found.runs),
        step_durations=durations and (durations, chart_data(durations)),
        highlights={
            run.run_id: list(tables.highlight_lines(run, found.highlights.get(run.run_id, ()))) for run in found.runs
        },
        bars=_bars(found),
        trainings=[(run, found.trainings[run.run_id]) for run in found.runs if run.run_id in found.trainings],
        training=training,
        flames=flame_pictures(found.flames, titles),
        surroundings=_surroundings(found.runs, manifests),
        without=[_label(run) for run in found.runs if run.run_id not in manifests],
        duration=formatting.duration,
        value_text=formatting.value_text,
        evidence=evidence_text,
    )  # fmt: skip


def _label(run: RunInfo, name: str = "") -> str:
    return f"{run.full_label} {name}".rstrip() + formatting.SIMULATED * run.simulated + PROFILED * bool(run.profilers)


def _summary(found: Report) -> str:
    """Return a sentence with the numbers of runs, workloads and runs by status."""
    workloads = len({(run.experiment_id, run.workload) for run in found.runs})
    states = Counter(run.status for run in found.runs)
    stand = ", ".join(f"{count} {status}" for status, count in states.most_common())
    return f"{_count(len(found.runs), 'run')} in {_count(workloads, 'workload')}: {stand}."


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'s'[: count != 1]}"


def _devices(some: Sequence[Device]) -> str:
    names = ", ".join(one.name for one in some)
    models = dict.fromkeys(one.model for one in some if one.model)
    return f"{names} ({', '.join(models)})" if models else names


def _bars(found: Report) -> list[tuple[RunInfo, list[Bar]]]:
    names = dict.fromkeys(one.name for some in found.phases.values() for one in some)
    colors = {name: COLORS[at % len(COLORS)] for at, name in enumerate(names)}
    longest = max((run.duration or 0.0 for run in found.runs), default=0.0) or 1.0
    return [
        (
            run,
            [
                Bar(one.name, one.start / longest, one.seconds / longest, one.seconds, colors[one.name])
                for one in found.phases[run.run_id]
            ],
        )
        for run in found.runs
        if run.run_id in found.phases
    ]


def _surroundings(runs: Sequence[RunInfo], manifests: Manifests) -> list[Surroundings]:
    """Return the distinct manifests of runs, each with the labels of its runs."""
    grouped: dict[tuple[tuple[tuple[str, str], ...], str, str], list[str]] = {}
    for run in runs:
        if (files := manifests.get(run.run_id)) is not None:
            key = (tuple(_facts(files)), files.get("requirements.lock", ""), files.get("git.diff", ""))
            grouped.setdefault(key, []).append(_label(run))
    return [Surroundings(tuple(labels), *key) for key, labels in grouped.items()]


def _facts(files: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    manifest = json.loads(files["manifest.json"])
    hardware, python, git = manifest.get("hardware") or {}, manifest.get("python") or {}, manifest.get("git") or {}
    gpus = Counter(
        f"{gpu.get('name', '')}{' (simulated)' * bool(gpu.get('simulated'))}" for gpu in hardware.get("gpus", ())
    )
    facts = {
        "host": hardware.get("host"),
        "system": hardware.get("system"),
        "kernel": hardware.get("kernel"),
        "processor": hardware.get("cpu"),
        "cores": hardware.get("cores"),
        "threads": hardware.get("threads"),
        "memory": formatting.value_text("_bytes", hardware.get("memory_bytes")),
        "GPUs": ", ".join(f"{count} x {name}" if count > 1 else name for name, count in gpus.items()),
        "driver": hardware.get("driver"),
        "CUDA": hardware.get("cuda"),
        "Python": python.get("version"),
        "interpreter": python.get("executable"),
        "image": manifest.get("image"),
        "directory": manifest.get("directory"),
        "repository": git.get("root"),
        "branch": git.get("branch"),
        "commit": git.get("commit"),
    }
    return [(word, str(value)) for word, value in facts.items() if value not in (None, "")]
