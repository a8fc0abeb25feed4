"""The commands ``plot`` and ``report``: files, messages and refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.conftest import Command
from tests.support.world import World


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command over a database with a run that has logged a loss, and one that has not started."""
    start = time.time() - 600
    run_id = world.run(start, start + 60, name="narrow")
    logged = [SoftwareMetric("loss", step, start + 10 * step, 1 / (step + 1)) for step in range(6)]
    store_software_metrics(world.connection, run_id, logged)
    waiting = world.run(start + 100, workload=2)
    world.connection.execute("update runs set started_at = null, status = 'pending' where run_id = %s", (waiting,))
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return command


def test_plots_and_reports_are_written(bench: Command, tmp_path: Path) -> None:
    for extension, begins in (
        (".svg", b"<?xml"),
        (".pdf", b"%PDF"),
        (".png", b"\x89PNG"),
        (".html", b"<!doctype html>"),
    ):
        status, output, _ = bench("plot", "20/1", "-m", "loss", "-o", f"loss{extension}")
        assert (status, output) == (0, f"Wrote loss{extension}\n")
        assert (tmp_path / f"loss{extension}").read_bytes().startswith(begins)
    status, output, _ = bench("plot", "20/1", "-m", "loss", "-o", "loss.svg", "--json")
    content = json.loads(output)
    assert (status, content["file"]) == (0, "loss.svg")
    assert [(one["label"], one["metric"], one["points"]) for one in content["series"]] == [("20/1/1 narrow", "loss", 6)]
    status, output, _ = bench("plot", "20/1", "-m", "loss", "-o", "bars.svg", "--kind", "bars", "--json")
    assert [one["value"] for one in json.loads(output)["bars"]] == [pytest.approx(1 / 6)]
    status, output, _ = bench("plot", "20/1", "-m", "loss", "-o", "s.svg", "--kind", "scatter", "--x", "lr", "--json")
    assert [(one["x"], one["value"]) for one in json.loads(output)["points"]] == [("0.1", pytest.approx(1 / 6))]
    assert bench("plot", "20/1", "-m", "loss", "-o", "p.svg", "--kind", "parallel")[0] == 1, "one run varies nothing"
    assert bench("plot", "20/1", "-m", "loss", "-o", "f.html", "--facet", "lr")[0] == 0
    assert "lr = 0.1: loss" in (tmp_path / "f.html").read_text()
    status, output, _ = bench("report", "20", "-o", "report.html", "--json")
    assert (status, json.loads(output)["manifests"]) == (0, 0)
    assert "loss" in (tmp_path / "report.html").read_text()
    assert sorted(path.suffix for path in tmp_path.glob("*.*")) == [".html"] * 3 + [".pdf", ".png"] + [".svg"] * 3


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("plot 20 -m los -o a.svg", 2, "these runs have no metric 'los' (did you mean 'loss'?)"),
        ("plot 20 -m loss -o a.jpg", 2, "a plot is a file that ends in .svg, .pdf, .png, .html; 'a.jpg' does not"),
        ("plot 20 -m loss -o no/a.svg", 2, "there is no folder 'no' to write a.svg to"),
        ("plot 20 -m loss -o a.svg --size big", 2, "--size is WIDTHxHEIGHT in inches"),
        ("plot 20 -m loss -o a.svg --size 0x3", 2, "--size is WIDTHxHEIGHT in inches"),
        ("plot 20 -m loss -o a.svg --style papr", 2, "there is no style 'papr' (did you mean 'paper'?)"),
        ("plot 20 -m loss -o a.svg --by runs", 2, "a series is a 'run' or a 'workload', not a 'runs'"),
        ("plot 20 -m loss -o a.svg --align epochs", 2, "(did you mean 'epoch'?)"),
        ("plot 20 -m loss -o a.svg --kind bar", 2, "not 'bar' (did you mean 'bars'?)"),
        ("plot 20 -m loss -o a.html --kind bars", 2, "--align and .html go with lines"),
        ("plot 20 -m loss -o a.html --kind parallel", 2, "--align and .html go with lines"),
        ("plot 20 -m loss -o a.svg --kind parallel --by workload", 2, "leave out --by"),
        ("plot 20 -o a.svg --kind parallel", 2, "name a metric"),
        ("plot 20 -m loss -o a.svg --kind scatter", 2, "--kind scatter and --x PARAM go together"),
        ("plot 20 -m loss -o a.svg --x lr", 2, "--kind scatter and --x PARAM go together"),
        ("plot 20 -m loss -o a.svg --kind scatter --x lrr", 2, "no parameter 'lrr' (did you mean 'lr'?)"),
        ("plot 20 -m loss -o a.svg --facet lrr", 2, "no parameter 'lrr' (did you mean 'lr'?)"),
        ("plot 20 -m loss -o a.svg --kind bars --facet lr", 2, "--facet goes with lines and one metric"),
        ("plot 20 -o a.svg", 2, "name a metric"),
        ("plot 20 -o a.svg --kind ledger", 1, "none of the runs used a GPU"),
        ("plot 20/2 -o a.svg --kind ledger", 1, "none of the selected runs has started yet"),
        ("plot 20 -o a.svg --kind ledger --by workload", 2, "--by, --align, --scope, --from, --to and --phase go with"),
        ("plot 20 -o a.svg --kind ledger --from 10", 2, "a ledger has whole runs over real time"),
        ("plot 20 -m loss -o a.svg --from 50 --to 10", 2, "--from 50 s is not before --to 10 s: exchange them"),
        ("plot 20 -m loss -o a.svg --from 2m", 2, "the longest, 20/1/1, took 60 s"),
        ("plot 20 -m loss -o a.svg --phase train", 2, "the selected runs have no phases"),
        ("plot 20 -m loss -o a.svg --from 1 --to 2", 1, "no samples of loss there"),
        ("report 20 -o a.html --to soon", 2, "--to: 'soon' is not a duration"),
        ("report 20 -o a.html --to 20 --target loss<=0.3", 2, "costs and targets are of whole runs"),
        ("export 20 -o a.capsule --phase train", 2, "--from, --to and --phase go with samples and traces"),
        ("export 20 -o a.csv --from 1h", 2, "--from 1 h is after the end of all selected runs"),
        ("share 20 -m loss -o a.json --phase train", 2, "the selected runs have no phases"),
        ("plot 20 -o a.svg --kind ledger -m gpu_powr", 2, "(did you mean 'gpu_power'?)"),
        ("plot 20 -o a.svg --kind ledger -m gpu_power -m gpu_sm_active", 2, "a ledger has one height"),
        ("plot 20/2 -m loss -o a.svg", 1, "none of the selected runs has started yet"),
        ("plot 21 -m loss -o a.svg", 2, "existing experiments: 20"),
        ("report 20 -o a.pdf", 2, "a report is a file that ends in .html; 'a.pdf' does not"),
        ("report 20/2 -o a.html", 1, "none of the selected runs has started yet"),
    ],
)  # fmt: skip
def test_errors_are_reported_and_nothing_written(
    bench: Command, tmp_path: Path, words: str, status: int, message: str
) -> None:
    found, _, output = bench(*words.split())
    assert (found, message in output) == (status, True), output
    assert not list(tmp_path.glob("*.*"))


def test_costs_and_a_target_stand_in_comparison_and_report(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text('tariff = "tariff.toml"\n')
    (tmp_path / "tariff.toml").write_text("currency = 'DKK'\n[host_hour]\nnode1 = 60\n")
    status, output, _ = bench("compare", "20/1", "--target", "loss<=0.3", "--json")
    content = json.loads(output)
    [run] = content["runs"]
    assert (status, run["cost_dkk"], run["time_to_target_seconds"]) == (0, pytest.approx(1), 30)
    assert run["missing"] == [{"metric": "energy_to_target_joules", "run": "20/1/1", "reason": "no_own_energy"}]
    [notice] = [one for one in content["notices"] if one["code"] == "missing_metrics"]
    assert notice == {
        "code": "missing_metrics", "severity": "warning", "runs": ["20/1/1"],
        "values": {"columns": ["energy_to_target_joules"], "reason": "no_own_energy"},
        "text": "20/1/1: no energy_to_target_joules: it has no measured energy of its own.",
    }  # fmt: skip
    assert [one["run"] for one in content["quality"]] == ["20/1/1"]
    status, output, _ = bench("compare", "20/1", "--target", "loss<=0.3")
    assert status == 0
    assert "cost (DKK)" in output
    assert "time to loss<=0.3" in output
    assert bench("report", "20", "-o", "report.html", "--target", "loss<=0.1")[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert "cost (DKK)" in page
    assert "it never reached loss&lt;=0.1 (0.1667 at best)" in page
    (tmp_path / "other.toml").write_text("[host_hours]\nnode1 = 60\n")
    refused = bench("compare", "20", "--tariff", "other.toml")
    assert refused[0] == 2
    assert refused[2].endswith("other.toml: unknown key 'host_hours' (did you mean 'host_hour'?)")
    status, _, error = bench("compare", "20", "--target", "loss<=0.3", "--align", "time")
    assert (status, error) == (2, "error: --target looks at whole runs, from their start: leave out --align")
