"""Units for hosts without Docker, checked with systemd, and their consistency."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hypergauge.collector.discovery.discovery import check_targets
from hypergauge.exporters.serving.registry import Registry
from tests.support.cluster.compose import ROOT

UNITS = ROOT / "deploy" / "systemd"
EXPORTERS = {path.name.removesuffix(".service.d").partition("@")[2]: path for path in UNITS.glob("bench-exporter@*.d")}
SERVICES = [*(f"bench-exporter@{name}" for name in EXPORTERS), "bench-collector", "bench-mlflow", "bench-tunnel"]
# Exposure on systemd's scale from 0 to 10, times ten: a unit that only needs the network is below 2.
MOST_EXPOSED = {"bench-exporter@nvml": 25}
TLS = ROOT / "deploy" / "tls"


@pytest.fixture
def analyze(tmp_path: Path) -> list[str]:
    """Return systemd's checker for our units alone; the programs that they start exist."""
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd-analyze: install systemd")
    for path in UNITS.rglob("*"):
        if path.suffix in (".service", ".conf"):
            copy = tmp_path / path.relative_to(UNITS)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(re.sub(r"/opt/bench/bin/\w+|/usr/bin/ssh", "/bin/true", path.read_text()))
    return ["env", f"SYSTEMD_UNIT_PATH={tmp_path}:", program]


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_verifies_units_and_their_exposure(analyze: list[str], service: str) -> None:
    verify = [*analyze, "verify", "--man=no", f"{service}.service"]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    threshold = f"--threshold={MOST_EXPOSED.get(service, 20)}"
    security = [*analyze, "security", "--offline=yes", threshold, f"{service}.service"]
    done = subprocess.run(security, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("service", ["bench-exporter@host", "bench-collector"])
def test_systemd_verifies_units_over_tls(analyze: list[str], tmp_path: Path, service: str) -> None:
    for path in TLS.glob("*.d/*.conf"):
        copy = tmp_path / path.relative_to(TLS)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text().replace("/opt/bench/bin/bench", "/bin/true"))
    verify = [*analyze, "verify", "--man=no", f"{service}.service"]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_tls_changes_only_the_exporters_address() -> None:
    [plain] = re.findall(r"^ExecStart=(.+)$", (UNITS / "bench-exporter@.service").read_text(), re.MULTILINE)
    [over_tls] = re.findall(
        r"^ExecStart=(.+)$", (TLS / "bench-exporter@.service.d" / "60-tls.conf").read_text(), re.MULTILINE
    )
    assert over_tls == f"{plain} --bind 0.0.0.0 --web-config /etc/bench/tls/web.yml"


def test_each_exporter_has_a_port_in_the_targets_file() -> None:
    text = (UNITS / "targets.yml").read_text()
    every = re.sub(r"^# (?=-|  )", "", text, flags=re.MULTILINE)
    assert "#   static" not in every
    ports = {}
    for name, folder in EXPORTERS.items():
        assert name in Registry.load()
        [ports[name]] = re.findall(r"^Environment=PORT=(\d+)$", (folder / "50-bench.conf").read_text(), re.MULTILINE)
    assert len(set(ports.values())) == len(ports)
    for name, port in ports.items():
        assert f"job_name: {name}" in every
        assert f"127.0.0.1:{port}" in every
    assert {target.listener for target in check_targets(UNITS / "targets.yml")} == {"host", "nvml"}


def test_no_unit_holds_a_password() -> None:
    for path in UNITS.rglob("*"):
        if path.is_file():
            assert not re.search(r"://[^/\s]*:[^/\s]*@", path.read_text()), path
    assert "LoadCredential=dsn:/etc/bench/writer.dsn" in (UNITS / "bench-collector.service").read_text()
