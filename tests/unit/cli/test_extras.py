"""Hosts without the extras: exporters and a collector, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from importlib.metadata import packages_distributions
from pathlib import Path
from subprocess import PIPE

import pytest

from hypergauge.cli import _EXTRAS

ROOT = Path(__file__).parents[3]


def without_extras(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a command without importable packages of the extras."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({[*_EXTRAS, 'sklearn', 'boto3']}))\n"
        f"sys.argv = {['bench', *words]}\nfrom hypergauge.cli import main; main()"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    environment = {**own, "BENCH_HOME": str(cwd / "home")}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=PIPE, stderr=PIPE, text=True, cwd=cwd, bufsize=1
    )


@pytest.mark.parametrize("words", ["exporter list", "collector check targets.yaml", "doctor --help"])
def test_what_every_host_runs_needs_no_extra(words: str, tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("- targets: ['127.0.0.1:9100']\n")
    process = without_extras(*words.split(), cwd=tmp_path)
    assert (process.communicate()[1], process.returncode) == ("", 0)


@pytest.mark.parametrize("name", ["host", "process", "nvml"])
def test_an_exporter_needs_no_extra(name: str, tmp_path: Path) -> None:
    process = without_extras("exporter", "run", name, "--simulate", "1xA100", cwd=tmp_path)
    with process:
        assert process.stdout is not None
        url = next(word for word in process.stdout.readline().split() if word.startswith("http://"))
        with urllib.request.urlopen(url) as answer:
            assert b"bench_exporter_" in answer.read()
        process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize("words", ["db migrate", "run -- true"])
def test_a_host_without_the_embedded_database_is_told_what_to_install(words: str, tmp_path: Path) -> None:
    process = without_extras(*words.split(), cwd=tmp_path)
    errors = process.communicate()[1]
    assert ("pip install 'hypergauge[scheduler]'" in errors, "Traceback" in errors) == (True, False)


@pytest.mark.parametrize(("words", "extra"), [("dashboards push --url http://127.0.0.1:1", "grafana")])
def test_a_command_names_the_extra_that_it_misses(words: str, extra: str, tmp_path: Path) -> None:
    process = without_extras(*words.split(), cwd=tmp_path)
    assert f"pip install 'hypergauge[{extra}]'" in process.communicate()[1]
    assert process.returncode == 1


@pytest.mark.parametrize("extra", ["scheduler", "insight", "grafana"])
def test_a_package_that_an_extra_adds_is_named_with_it(extra: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(_EXTRAS.values()) <= set(extras)
    for requirement in extras[extra]:
        name = re.split("[<>=!]", requirement)[0]
        modules = [module for module, names in packages_distributions().items() if name in names]
        assert not modules or extra in map(_EXTRAS.get, modules), name
