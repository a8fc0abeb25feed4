"""Diagrams of the explanation, each in two files: for light and for dark pages."""

from __future__ import annotations

import itertools
from pathlib import Path

from docs.pictures.drawing import DARK, LIGHT, Drawing, Theme

__all__ = ["draw_all"]


def draw_all(folder: Path) -> list[Path]:
    """Write all diagrams to a folder, and return their files."""
    files = []
    for name, draw in {"flow": flow, "run-sets": run_sets, "counter": counter, "shared-gpu": shared_gpu}.items():
        for theme in (LIGHT, DARK):
            file = folder / f"{name}-{theme.name}.svg"
            file.write_text(draw(theme).svg())
            files.append(file)
    return files


def flow(theme: Theme) -> Drawing:
    """Draw the way of the data, from exporters to answers."""
    made = Drawing(theme, 880, 350, "The way of the data: exporters, collector, database, answers; runs beside it")
    x, width = (10, 238, 466, 694), 176
    for left, title in zip(x, ("Measure", "Collect", "Store", "Answer"), strict=True):
        made.text(left + width / 2, 20, title, anchor="middle", faint=True)
    for index, (name, what) in enumerate(
        [("host", "cores, memory, disks"), ("process", "each run's processes"), ("nvml, dcgm", "NVIDIA's GPUs"),
         ("any exporter", "of Prometheus")]
    ):  # fmt: skip
        made.box(x[0], 36 + 56 * index, width, 46, "measure", name, what)
        made.arrow((x[0] + width, 59 + 56 * index), (x[1], 120 + 12 * index))
    made.text(x[0] + width + 30, 50, "HTTP", anchor="middle", faint=True)
    made.box(
        x[1], 92, width, 92, "store", "collector", "scrapes once a second", "tags with a run set", "spools, writes"
    )
    made.arrow((x[1] + width, 138), (x[2], 138))
    made.text(x[1] + width + 30, 128, "COPY", anchor="middle", faint=True)
    made.box(x[2], 92, width, 92, "store", "database", "in PostgreSQL", "samples, aggregates")
    for index, (name, what) in enumerate(
        [("bench compare", "tables, verdicts"), ("Grafana", "dashboards"), ("plots, reports", "files to send"),
         ("SQL, pandas", "your own questions")]
    ):  # fmt: skip
        made.box(x[3], 36 + 56 * index, width, 46, "answer", name, what)
        made.arrow((x[2] + width, 120 + 12 * index), (x[3], 59 + 56 * index))
    made.text(x[2] + width + 30, 50, "SQL", anchor="middle", faint=True)
    made.box(x[0], 284, width, 50, "run", "experiments.csv", "a row is a run")
    made.box(x[1], 284, width, 50, "run", "bench schedule", "one supervisor a run")
    made.box(x[3], 284, width, 50, "run", "MLflow", "parameters, metrics")
    made.arrow((x[0] + width, 309), (x[1], 309))
    made.arrow((x[1] + width, 309), (x[2] + width / 2, 309), (x[2] + width / 2, 184))
    made.text(x[2] + width / 2 + 8, 240, "placements,", faint=True)
    made.text(x[2] + width / 2 + 8, 257, "starts, ends", faint=True)
    made.arrow((x[2] + width / 2, 309), (x[3], 309))
    return made


def run_sets(theme: Theme) -> Drawing:
    """Draw how samples of one GPU find the runs that were on it."""
    made = Drawing(theme, 880, 290, "Two runs on one GPU, and the run set of each sample")
    left, second = 160, 34
    at = [left + second * tick for tick in range(21)]
    for tick in (2, 7, 12, 17):
        made.line([(at[tick], 20), (at[tick], 232)], dashed=True)
    rows = (("run 1/3/1", 30, 2, 12, "a"), ("run 1/3/2", 74, 7, 17, "b"))
    for label, top, start, end, kind in rows:
        made.text(left - 16, top + 22, label, anchor="end", bold=True)
        made.box(at[start], top, at[end] - at[start], 34, kind, "on GPU 0")
    made.text(left - 16, 150, "samples of GPU 0", anchor="end", bold=True)
    for tick in range(20):
        made.dot(at[tick] + second / 2, 145)
    made.text(left - 16, 212, "run set", anchor="end", bold=True)
    sets = ((0, 2, "none", "none"), (2, 7, "a", "{1/3/1}"), (7, 12, "both", "{1/3/1, 1/3/2}"),
            (12, 17, "b", "{1/3/2}"), (17, 20, "none", "none"))  # fmt: skip
    for start, end, kind, text in sets:
        made.box(at[start], 188, at[end] - at[start], 38, kind, text)
    scopes = ((0, 2, "idle"), (2, 7, "exclusive: instance"), (7, 12, "shared: device"), (12, 17, "exclusive: instance"),
              (17, 20, "idle"))  # fmt: skip
    for start, end, text in scopes:
        made.text((at[start] + at[end]) / 2, 248, text, anchor="middle", faint=True)
    made.text(left - 16, 248, "scope", anchor="end", bold=True)
    made.arrow((left, 272), (at[20], 272))
    made.text(left - 16, 277, "time", anchor="end", faint=True)
    return made


def counter(theme: Theme) -> Drawing:
    """Draw a counter with a gap and a reset, and the samples that are stored of it."""
    made = Drawing(theme, 880, 400, "A counter with a gap and a reset, and its stored rates")
    left, second, floor = 160, 34, 170
    at = [left + second * tick for tick in range(20)]
    read = {0: 0, 1: 16, 2: 32, 3: 48, 4: 72, 5: 96, 10: 136, 11: 144, 12: 152, 14: 8, 15: 24, 16: 40, 17: 56}
    made.text(left - 16, 60, "counter as read", anchor="end", bold=True)
    for tick, value in read.items():
        made.dot(at[tick], floor - value * 0.9)
    made.line([(at[5], floor - 96 * 0.9), (at[10], floor - 136 * 0.9)], dashed=True)
    made.line([(left, floor), (at[19], floor)])
    made.text((at[5] + at[10]) / 2 + 14, floor - 76, "no scrape for 5 s", anchor="middle", faint=True)
    made.text(at[13] + 16, floor - 110, "restart: begins at 0", faint=True)
    base = 330
    made.text(left - 16, 260, "rate as stored", anchor="end", bold=True)
    ticks = sorted(read)
    for before, after in itertools.pairwise(ticks):
        if read[after] < read[before]:
            continue
        rate = (read[after] - read[before]) / (after - before)
        height = rate * 3.6
        points = [(at[before], base), (at[before], base - height), (at[after], base - height), (at[after], base)]
        made.area(points, "measure" if after - before == 1 else "answer")
    made.line([(left, base), (at[19], base)])
    made.text((at[5] + at[10]) / 2, base - 44, "one sample, dt = 5 s", anchor="middle", faint=True)
    made.text(at[13], base - 14, "none", anchor="middle", faint=True)
    made.text(left, 366, "An area is a rate times dt: the increase. The gap keeps its total; the restart adds nothing.")
    made.arrow((left, 386), (at[19], 386))
    made.text(left - 16, 390, "time", anchor="end", faint=True)
    return made


def shared_gpu(theme: Theme) -> Drawing:
    """Draw the power of a GPU that two runs share, and each run's part of it."""
    made = Drawing(theme, 880, 300, "Power of a shared GPU: idle power, and the part of each run")
    left, second, floor, idle = 160, 34, 240, 40
    at = [left + second * tick for tick in range(20)]
    made.text(left - 16, 46, "power of GPU 0", anchor="end", bold=True)
    alone = floor - idle
    made.area([(at[2], alone), (at[2], alone - 90), (at[7], alone - 90), (at[7], alone)], "a")
    made.area([(at[7], alone), (at[7], alone - 78), (at[12], alone - 78), (at[12], alone)], "a")
    made.area([(at[7], alone - 78), (at[7], alone - 148), (at[12], alone - 148), (at[12], alone - 78)], "b")
    made.area([(at[12], alone), (at[12], alone - 84), (at[17], alone - 84), (at[17], alone)], "b")
    made.area([(at[0], floor), (at[0], alone), (at[19], alone), (at[19], floor)], "none")
    made.text((at[2] + at[7]) / 2, alone - 40, "1/3/1 alone", anchor="middle", bold=True)
    made.text((at[7] + at[12]) / 2, alone - 34, "1/3/1", anchor="middle", bold=True)
    made.text((at[7] + at[12]) / 2, alone - 108, "1/3/2", anchor="middle", bold=True)
    made.text((at[12] + at[17]) / 2, alone - 38, "1/3/2 alone", anchor="middle", bold=True)
    made.text((at[0] + at[19]) / 2, floor - 14, "idle power: belongs to no run", anchor="middle", faint=True)
    made.arrow((left, 272), (at[19], 272))
    made.text(left - 16, 277, "time", anchor="end", faint=True)
    return made
