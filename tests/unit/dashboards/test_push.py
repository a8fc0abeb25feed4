"""Pushes of dashboards to a Grafana, and their errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hypergauge.cli import app
from hypergauge.core.errors import BenchError
from hypergauge.dashboards.grafana.boards import BOARDS
from tests.support.fakes.grafana_api import LOGIN, TOKEN, GrafanaServer, serving


@pytest.fixture
def grafana(monkeypatch: pytest.MonkeyPatch) -> Iterator[GrafanaServer]:
    """Yield an empty Grafana with our data source and a token."""
    with serving(GrafanaServer()) as server:
        server.add_source()
        monkeypatch.setenv("BENCH_GRAFANA_URL", server.url)
        monkeypatch.setenv("BENCH_GRAFANA_TOKEN", TOKEN)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield server


def push(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dashboards", "push", *arguments])


def error(*arguments: str) -> str:
    """Return the error message of a failing push."""
    found = push(*arguments)
    assert isinstance(found.exception, BenchError), found.output
    return str(found.exception)


def test_all_dashboards_come_into_a_folder_of_theirs(grafana: GrafanaServer) -> None:
    done = push()
    assert done.exit_code == 0, done.output
    assert "made the folder hypergauge" in done.stdout
    assert set(grafana.dashboards) == set(BOARDS)
    assert set(grafana.folder_of.values()) == {"hypergauge"}
    assert all(f"created: {grafana.url}/d/{uid}" in done.stdout for uid in BOARDS)
    assert not done.stderr
    assert TOKEN not in done.output

    again = push()
    assert "made the folder" not in again.stdout
    assert again.stdout.count(" updated: ") == len(BOARDS)
    assert set(grafana.versions.values()) == {2}


def test_what_was_done_as_json(grafana: GrafanaServer) -> None:
    answer = json.loads(push("--json").stdout)
    assert (answer["grafana"], answer["version"], answer["warnings"]) == (grafana.url, "12.4.0", [])
    assert [one["done"] for one in answer["dashboards"]] == ["created"] * len(BOARDS)


def test_a_login_in_the_address_is_used_and_not_shown(grafana: GrafanaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_GRAFANA_TOKEN")
    done = push("--url", grafana.url.replace("://", f"://{':'.join(LOGIN)}@"))
    assert done.exit_code == 0, done.output
    assert LOGIN[1] not in done.output
    assert set(grafana.dashboards) == set(BOARDS)


def test_a_token_is_read_from_a_file(grafana: GrafanaServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BENCH_GRAFANA_TOKEN")
    (tmp_path / "token").write_text(TOKEN + "\n")
    monkeypatch.setenv("BENCH_GRAFANA_TOKEN_FILE", str(tmp_path / "token"))
    assert push().exit_code == 0


def test_a_folder_of_provisioning_is_used(grafana: GrafanaServer) -> None:
    grafana.folders["ddkx7z1pq0cu8f"] = "hypergauge"
    assert push().exit_code == 0
    assert set(grafana.folder_of.values()) == {"ddkx7z1pq0cu8f"}


def test_provisioned_dashboards_stay_as_they_are(grafana: GrafanaServer) -> None:
    grafana.provisioned = {"bench-intra"}
    done = push()
    assert done.exit_code == 0
    assert "not replaced: Grafana provisions it from a file" in done.stdout
    assert set(grafana.dashboards) == set(BOARDS) - {"bench-intra"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (None, "no data source with the uid 'bench'"),
        ({"type": "influxdb"}, "influxdb, not grafana-postgresql-datasource"),
        ({"jsonData": {}}, "minimum interval of 1s"),
    ],
)
def test_an_unsuitable_data_source_is_reported(
    grafana: GrafanaServer, changes: dict[str, object] | None, expected: str
) -> None:
    grafana.sources.clear()
    if changes is not None:
        grafana.add_source(**changes)
    done = push()
    assert done.exit_code == 0
    assert expected in done.stderr
    assert set(grafana.dashboards) == set(BOARDS)


def test_an_editor_can_push_but_not_look_at_the_data_source(grafana: GrafanaServer) -> None:
    grafana.role = "Editor"
    done = push()
    assert done.exit_code == 0
    assert "role Admin" in done.stderr
    assert set(grafana.dashboards) == set(BOARDS)


def test_a_viewer_sees_what_is_missing(grafana: GrafanaServer) -> None:
    grafana.role = "Viewer"
    assert "403 You'll need additional permissions" in (message := error())
    assert "role Editor" in message


@pytest.mark.parametrize(("token", "reason"), [(None, "401 Unauthorized"), ("glsa_wrong", "401 Invalid API key")])
def test_unauthenticated_users_see_how_to_log_in(
    grafana: GrafanaServer, monkeypatch: pytest.MonkeyPatch, token: str | None, reason: str
) -> None:
    monkeypatch.delenv("BENCH_GRAFANA_TOKEN")
    if token is not None:
        monkeypatch.setenv("BENCH_GRAFANA_TOKEN", token)
    message = error()
    assert reason in message
    assert "set BENCH_GRAFANA_TOKEN" in message
    assert "wrong" not in message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", "Grafana at http://127.0.0.1:1 does not answer: "),
        ("http://me:hunter2@127.0.0.1:1/grafana/", "Grafana at http://127.0.0.1:1/grafana does not answer: "),
        ("ftp://127.0.0.1", "not an address of Grafana"),
    ],
)
def test_an_address_where_there_is_none(grafana: GrafanaServer, url: str, expected: str) -> None:
    assert expected in (words := error("--url", url))
    assert "hunter2" not in words


def test_something_else_that_answers_is_no_grafana(grafana: GrafanaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GrafanaServer, "answer", lambda *_: (200, ["hello"]))
    assert f"{grafana.url} is not Grafana" in error()


def test_links_to_mlflow_lead_to_the_one_that_is_configured(
    grafana: GrafanaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:hunter2@mlflow.example/base/")
    assert push().exit_code == 0
    variables = {one["name"]: one for one in grafana.dashboards["bench-intra"]["templating"]["list"]}
    assert variables["mlflow"]["current"]["value"] == "https://mlflow.example/base"
    assert "hunter2" not in json.dumps(grafana.dashboards)
