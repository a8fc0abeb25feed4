"""Examples of the papers: rows, published values, the part for a host, and the table."""

from __future__ import annotations

import csv
import json
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from examples.papers import __main__ as command
from examples.papers import paper as papers
from examples.papers import results
from examples.papers.paper import Comparison, Paper
from examples.papers.results import Measured, Results
from examples.papers.rows import SMALL, Choices, Host, Selection, select
from examples.papers.table import show
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.experiment.cells import LISTENERS
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan import checks
from tests.support.fakes.mps import installed_mps

NAMES = ["collocation", "deem23", "euromlsys23"]
NO_GPU = {name: None if name in ("host", "process") else "no GPU" for name in LISTENERS}
PROCESSORS = Host(Inventory(reason="no driver"), NO_GPU)
# The server of the papers: GPU 2 is in MIG mode.
SERVER = "2xA100,1xA100:mig"
ANSWERS = Path(__file__).parents[2] / "data" / "papers"


def rows_of(paper: Paper) -> list[dict[str, str]]:
    with paper.rows.open(newline="") as file:
        return list(csv.DictReader(file))


def chosen(name: str, folder: Path, host: Host = PROCESSORS, **choices: Any) -> Selection:
    return select(papers.read(name), Choices(Path(sys.executable), **{"small": True, **choices}), host, folder)


def test_there_are_three_papers() -> None:
    assert papers.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_are_in_order_on_a_server_like_theirs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = papers.read(name)
    assert {row["Params"].split()[1] for row in rows_of(paper)} <= SMALL.keys()
    assert len(ExperimentFile.read(paper.rows).rows) == len(rows_of(paper))
    monkeypatch.setenv("PATH", str(installed_mps(tmp_path)))
    for program in ("nsys", "ncu"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(stat.S_IRWXU)
    server = Host(inventory(SERVER), dict.fromkeys(LISTENERS))
    found = chosen(name, tmp_path, server, small=False)
    # The Python of the tests need not have PyTorch, which its profiler requires.
    assert all("torch" in reason for _, reason in found.excluded), found.excluded
    assert sum(map(len, found.excluded.values())) + len(found.workloads) == len(
        {row["Workload"] for row in rows_of(paper)}
    )
    assert {row["Params"] for row in found.rows} <= {row["Params"] for row in rows_of(paper)}


@pytest.mark.parametrize("name", NAMES)
def test_comparisons_are_of_rows(name: str) -> None:
    paper = papers.read(name)
    counts = Counter(row["Workload"] for row in rows_of(paper))
    for one in paper.comparisons:
        for selector in filter(None, (one.new, one.old)):
            workload, _, position = selector.partition("/")
            assert selector == "best" or int(position or 1) <= counts[workload], one
    keys = [(one.configuration, one.metric) for one in paper.comparisons]
    assert len({*keys}) == len(keys)


@pytest.mark.parametrize("name", NAMES)
def test_published_values_have_their_source(name: str) -> None:
    paper = papers.read(name)
    compared = {(one.configuration, one.metric) for one in paper.comparisons}
    for key, one in paper.published.items():
        assert all((one.figure, one.value, one.unit, one.read))
        float(one.value)
        assert key in compared or one.metric == "training time"
    readme = (paper.rows.parent / "README.md").read_text()
    assert paper.link in readme
    assert "published.csv" in readme


def test_published_overheads_follow_from_the_published_times() -> None:
    published = papers.read("euromlsys23").published
    seconds = {name: float(one.value) for (name, metric), one in published.items() if metric == "training time"}
    overheads = {name: one for (name, metric), one in published.items() if metric == "epoch_time"}
    assert overheads.keys() == seconds.keys() - {"light none"}
    for name, one in overheads.items():
        assert float(one.value) == round(100 * (seconds[name] / seconds["light none"] - 1), 1)
        assert [*map(float, re.findall(r"([\d.]+) s", one.read))] == [seconds[name], seconds["light none"]]


@pytest.mark.parametrize(
    ("name", "workloads", "excluded"),
    [
        ("deem23", {1, 2, 3, 4, 5, 6}, {"MPS, ": [7], "MIG, ": [8]}),
        ("euromlsys23", {1, 2, 11, 12}, {}),
        ("collocation", {1, 5, 8, 11, 14, 18, 21, 24, 27, 31, 34, 37, 100, 110, 120, 130, 210, 220, 310, 320, 330}, {}),
    ],
)  # fmt: skip
def test_processors_run_the_rows_without_mig_and_mps(
    name: str, workloads: set[int], excluded: Mapping[str, list[int]], tmp_path: Path
) -> None:
    found = chosen(name, tmp_path)
    assert found.workloads - {10} == workloads
    left_out = {number for numbers in found.excluded.values() for number in numbers}
    assert found.workloads | left_out == {int(row["Workload"]) for row in rows_of(papers.read(name))}
    assert {row["Devices"] for row in found.rows} == {""}
    for sharing, numbers in excluded.items():
        assert [*numbers] in [[*some] for (one, _), some in found.excluded.items() if one == sharing]
    kept = {"collocation": {"top"}, "deem23": {"top"}, "euromlsys23": {"none", "top"}}[name]
    assert {row["Listeners"] for row in found.rows} - {"torch"} == kept
    found.write(tmp_path / "here.csv", papers.read(name))
    assert len(checks.load(tmp_path / "here.csv", PROCESSORS.gpus, PROCESSORS.exporters).rows) == len(found.rows)


def test_choices_change_the_rows(tmp_path: Path) -> None:
    found = chosen("deem23", tmp_path, workloads=[4], experiment=7, params="--epochs 1")
    assert [(row["Experiment"], row["Workload"]) for row in found.rows] == [("7", "4")] * 2
    assert all(row["Params"].endswith(f"{SMALL['resnet18']} --epochs 1") for row in found.rows)
    with pytest.raises(BadRequest, match="deem23 has no workload 99"):
        chosen("deem23", tmp_path, workloads=[99])


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    found, path = chosen("deem23", tmp_path), tmp_path / "deem23-here.csv"
    path.write_text("Experiment,Workload\n")
    with pytest.raises(BadRequest, match="choose another --folder"):
        found.write(path, papers.read("deem23"))
    assert path.read_text() == "Experiment,Workload\n"
    path.unlink()
    found.write(path, papers.read("deem23"))
    found.write(path, papers.read("deem23"))


def test_rows_that_ran_are_not_mixed_with_changed_ones(tmp_path: Path) -> None:
    paper, path = papers.read("deem23"), tmp_path / "deem23-here.csv"
    chosen("deem23", tmp_path).write(path, paper)
    changed = chosen("deem23", tmp_path, params="--epochs 1")
    changed.write(path, paper)  # nothing has run yet
    path.write_text(path.read_text().replace("resnet18,,,", "resnet18,finished,0123456789abcdef,", 1))
    changed.write(path, paper)
    path.write_text(path.read_text().replace("resnet18,,,", "resnet18,finished,0123456789abcdef,", 1))
    with pytest.raises(BadRequest, match="choose another --experiment") as caught:
        chosen("deem23", tmp_path).write(path, paper)
    assert (caught.value.file, caught.value.line) == (path, 2)
    chosen("deem23", tmp_path, experiment=7).write(path, paper)


# --- the answers of bench ---------------------------------------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers of `bench` on GPUs, as it gave them once (see the README beside them); the list has the commands."""
    asked: list[str] = []

    def answer(*words: str) -> subprocess.CompletedProcess[str]:
        asked.append(words[0])
        of_run = words[1].count("/") == 2
        name = "interference" if words[0] == "interference" else "compare_run" if of_run else "compare_workload"
        return subprocess.CompletedProcess(words, 0, (ANSWERS / f"{name}.json").read_text())

    monkeypatch.setattr(results, "bench", answer)
    return asked


def rounded(found: Measured | None) -> list[float | None]:
    assert found is not None
    return [None if one is None else round(one, 4) for one in (found.value, found.low, found.high)]


def test_ratios_of_a_set(answers: list[str]) -> None:
    [pair, _] = json.loads((ANSWERS / "interference.json").read_text())["sets"]
    slowdown = pair["members"][0]["slowdown"]
    found = Results(24, {1, 5, 12})
    assert found.of(Comparison("two", "slow-down", "5", "1/1")) == Measured(
        slowdown["ratio"], slowdown["low"], slowdown["high"]
    )
    assert rounded(found.of(Comparison("two", "throughput", "5", ""))) == [1.891, None, None]
    best = found.of(Comparison("best", "throughput", "best", ""))
    assert best is not None
    assert (round(best.value, 4), best.note) == (1.891, "workload 5")
    assert found.of(Comparison("three", "throughput", "8", "")) is None, "not run here"
    assert answers == ["interference"]


def test_an_instance_is_compared_with_a_run_on_another_gpu(answers: list[str]) -> None:
    found = Results(24, {1, 12})
    # The mean of 0.3442 / 0.3037 and 0.3187 / 0.3037.
    assert rounded(found.of(Comparison("two", "slow-down", "12", "1/1"))) == [1.0912, None, None]
    assert rounded(found.of(Comparison("two", "throughput", "12", "1/1"))) == [round(2 / 1.09125, 4), None, None]
    assert answers == ["interference", "compare", "compare"]


def test_a_run_has_the_interval_of_its_change(answers: list[str]) -> None:
    found = Results(24, {1, 12}).of(Comparison("one", "epoch_time", "12/1", "1/1"))
    assert rounded(found) == [1.1333, 0.6319, 2.0146]


def test_the_table_fits_a_terminal(
    answers: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in NAMES:
        show(papers.read(name), Results(24, range(400)), chosen(name, tmp_path), has_gpu=False, small=True)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert re.search(r"best of all sets +throughput +4 x at most +1.89x \(workload 5\)", printed)
    assert re.search(r"light smi\+top +epoch_time +-0.5% +\+13.3% \(-37% to \+101%\)", printed)
    assert re.search(r"inter: two resnet18 / alone +epoch_time +- ", printed)
    assert "- MPS, workload 7: Devices: device 0 does not exist" in printed
    assert "- workloads 3-4, 13: Listeners: the exporter 'nvml' cannot work here" in printed


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_name_what_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(stat.S_IRWXU)
    for words, message in [
        (["colocation"], "did you mean 'collocation'?"),
        (["deem23", "--python", str(without)], "has no PyTorch, which the trainings need"),
        (["deem23", "--python", str(tmp_path / "none")], "cannot be run: No such file"),
        (["deem23", "--dry-run", "--workload", "7"], "this host can run no row of deem23:\n"),
    ]:
        if "--workload" in words and inventory().gpus:
            continue
        assert command.main([*words, "--folder", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_malformed_table_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "EXAMPLES", tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "paper.toml").write_text('title = "t"\nlink = "l"\nhardware = "h"\ndiffers = "d"\n')
    (tmp_path / "new" / "published.csv").write_text("Figure,Configuration,Metric,Value,Unit,Read\n")
    comparisons = tmp_path / "new" / "comparisons.csv"
    for text, line in [("Name\n", 1), ("Configuration,Metric,New,Old\na,speed,1/1,2/1\n", 2)]:
        comparisons.write_text(text)
        with pytest.raises(BadRequest) as caught:
            papers.read("new")
        assert (caught.value.file, caught.value.line) == (comparisons, line)
