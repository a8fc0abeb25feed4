"""The committed examples, run as they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from hypergauge.collector.discovery.discovery import check_targets
from hypergauge.core.config.environments import named_environments
from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.experiment import sweep
from hypergauge.scheduler.experiment.sweep_file import SweepFile
from hypergauge.scheduler.launch.commands import command_of
from hypergauge.scheduler.plan import checks

ROOT = Path(__file__).parents[3]
WORKS = dict.fromkeys(("host", "process"))


@pytest.mark.parametrize(
    "path",
    [
        "examples/autolog/experiments.csv",
        "cli/templates/init/experiments.csv",
        "cli/templates/demo/demo.csv",
    ],
)
def test_experiment_files_are_in_order(path: str) -> None:
    assert checks.load(ROOT / path, inventory("1xH100"), WORKS).rows


def test_the_sweep_becomes_an_experiment_file_in_order(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/sweep", tmp_path, dirs_exist_ok=True)
    written = tmp_path / "experiments.csv"
    sweep.write(written, sweep.rows(SweepFile.read(tmp_path / "sweep.toml")))
    assert len(checks.load(written, Inventory(), WORKS).rows) == 8


def test_the_sweep_of_the_docs_is_in_order(tmp_path: Path) -> None:
    shown = re.findall(
        r"^```toml\n(\[experiment\].*?)^```",
        (ROOT / "docs/reference/sweeps.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert len(shown) == 1
    (tmp_path / "sweep.toml").write_text(shown[0])
    assert len(sweep.rows(SweepFile.read(tmp_path / "sweep.toml"))) == 4 * 20 * 4


def test_rows_with_models_become_commands_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples/entry-point")
    file = checks.load(Path("experiments.csv"), Inventory(), WORKS)
    assert [command_of(file, row).words[1:] for row in file.rows[2:]] == [
        ("train.py", "--model", "forest", "--data", "digits", "--trees=400"),
        ("train.py", "--model", "logistic", "--data", "digits"),
    ]


def test_what_the_docs_show_of_environments_is_in_order(tmp_path: Path) -> None:
    [shown] = re.findall(
        r"^```toml\n(\[environments.*?)^```",
        (ROOT / "docs/reference/environments.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    (tmp_path / "bench.toml").write_text(shown)
    assert set(named_environments(tmp_path)) == {"pytorch", "tensorflow"}


def in_a_job(fields: str) -> str:
    """Return a file with one job of these fields."""
    job = {"job_name": "shown", "static_configs": [{"targets": ["node7:9100"]}], **yaml.safe_load(fields)}
    return yaml.safe_dump({"scrape_configs": [job]})


def test_what_the_docs_show_of_targets_is_in_order(tmp_path: Path) -> None:
    shown = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs/reference/targets.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(shown) == 5  # the forms, an announced source, a host, a rule
    for text in shown:
        whole = text if text.startswith(("-", "global", "scrape_configs")) else in_a_job(text)
        (tmp_path / "targets.yml").write_text(whole)
        check_targets(tmp_path / "targets.yml")


def test_the_targets_file_is_in_order() -> None:
    assert {target.listener for target in check_targets(ROOT / "examples/targets.yml")} == {"node", "dcgm"}
