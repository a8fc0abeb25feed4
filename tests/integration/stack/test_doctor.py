"""Findings of ``bench doctor``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.services import free_port
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.stack.doctor import certificate_findings, findings
from tests.support.fakes.amdsmi import AmdSmi, mi325x


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_a_working_host_has_no_fault_but_its_gpus(database: Database) -> None:
    said = findings(replace(database.settings, simulate="2xH100"))
    found = {what: ok for what, ok, _ in said}
    assert ("NVIDIA GPUs", True, "2, measured by nvml and dcgm") in said
    assert found["Python"]
    assert found["database"]
    assert found["GPU 0"]
    assert found["GPU 1"]
    assert found["BENCH_HOME"]
    assert "exporter host" in found
    assert "reads (BENCH_READ_DSN)" not in found
    assert "GPUs" not in found


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_gpus_that_nothing_measures_are_a_finding(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(mi325x(0), mi325x(1)))
    found = {what: (ok, detail) for what, ok, detail in findings(database.settings)}
    assert found["AMD GPU 1"] == (True, "AMD Instinct Mi325X VF")
    assert found["AMD GPUs"] == (True, "2, measured by amd")
    assert "GPUs" not in found, "no driver of NVIDIA is missing here"
    monkeypatch.setattr("hypergauge.stack.doctor.availability", lambda _: {"amd": "it fails with OSError"})
    found = {what: (ok, detail) for what, ok, detail in findings(database.settings)}
    assert found["AMD GPUs"] == (False, "2, not measured: it fails with OSError")


def test_a_database_that_does_not_answer_is_a_finding(tmp_path: Path) -> None:
    dsn = f"host=127.0.0.1 port={free_port()} dbname=x connect_timeout=2"
    found = {what: ok for what, ok, _ in findings(Settings(home=tmp_path / "home", dsn=dsn))}
    assert not found["database"]
    assert found["BENCH_HOME"]


def test_without_certificates_and_a_server_the_only_finding_is_good(tmp_path: Path) -> None:
    assert [(what, ok) for what, ok, _ in certificate_findings(Settings(home=tmp_path))] == [("TLS", True)]
