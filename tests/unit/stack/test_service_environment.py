"""Environment variables of the services of the local stack."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.stack.services.local_stack import service_environment


def test_services_find_packages_as_the_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster's environment modules install packages in folders of ``PYTHONPATH``, this one too."""
    installed = str(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", installed)
    assert service_environment(Settings(home=tmp_path))["PYTHONPATH"] == installed


def test_inside_a_run_its_client_does_not_hide_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "client" / "0123"
    (client / "hypergauge/client").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(client), "", "/opt/site"]))
    assert service_environment(Settings(home=tmp_path))["PYTHONPATH"] == "/opt/site"
    monkeypatch.setenv("PYTHONPATH", str(client))
    assert "PYTHONPATH" not in service_environment(Settings(home=tmp_path))


def test_services_run_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "src")
    assert service_environment(Settings(home=tmp_path))["PYTHONPATH"] == str(tmp_path / "src")
