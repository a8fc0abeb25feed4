"""Settings that services were started with, against those of a later command."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.services import Service
from hypergauge.stack.services import start_settings as module
from hypergauge.stack.services.outdated import require_own_spool
from hypergauge.stack.services.start_settings import describe, differences, start_settings

HOME = Settings(home=Path("/home/me"))
# Read by each command itself, carried to each run, or (`home`) the same for all services of a stack.
OF_COMMANDS = {
    "grace",
    "home",
    "grafana_url",
    "output_limit",
    "tariff",
    "web_config",
    "executor",
    "peak_flops",
    "quiet_cores",
}


def service(name: str, settings: Settings) -> Service:
    recorded = start_settings(name, settings)
    return Service(name, os.getpid(), 0.0, "", "", recorded.shown, digest=recorded.digest)


def test_every_setting_belongs_to_services_or_to_commands() -> None:
    of_services = {setting for settings in (*module._SERVICES.values(), module._EXPORTER) for setting in settings}
    assert of_services | OF_COMMANDS == {field.name for field in fields(Settings)}
    assert not of_services & OF_COMMANDS


@pytest.mark.parametrize(
    ("name", "setting", "value", "shown"),
    [
        ("collector", "dsn", "host=a dbname=b user=me port=1", "BENCH_DSN=dbname=b host=a port=1 user=me"),
        ("rules", "dsn", "host=a dbname=b user=me port=1", "BENCH_DSN=dbname=b host=a port=1 user=me"),
        ("mlflow", "dsn", "host=a dbname=b user=me port=1", "BENCH_DSN=dbname=b host=a port=1 user=me"),
        ("grafana", "read_dsn", "host=a dbname=b user=me port=1", "BENCH_READ_DSN=dbname=b host=a port=1 user=me"),
        ("collector", "interval", 10.0, "interval=10"),
        ("collector", "lease", 30.0, "BENCH_LEASE=30"),
        ("collector", "tracking_uri", "http://me:secret@host", "MLFLOW_TRACKING_URI=http://host"),
        ("mlflow", "tracking_uri", "sqlite:///a.db", "MLFLOW_TRACKING_URI=sqlite:///a.db"),
        ("mlflow", "artifacts", "s3://bucket/a", "BENCH_ARTIFACTS=s3://bucket/a"),
        ("exporter-nvml", "simulate", "1xH100", "BENCH_SIMULATE=1xH100"),
        ("exporter-host", "simulate", "1xH100", "BENCH_SIMULATE=1xH100"),
    ],
)
def test_a_changed_setting_is_named(name: str, setting: str, value: Any, shown: str) -> None:
    changed = replace(HOME, **{setting: value})
    assert differences(service(name, changed), changed) == []
    [away] = differences(service(name, changed), HOME)
    assert away.started_with == shown
    [added] = differences(service(name, HOME), changed)
    assert added.wanted == shown


def test_texts_of_one_database_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    one = replace(HOME, dsn="postgresql://me:secret@a:5433/b")
    same = replace(HOME, dsn="host=a port=5433 dbname=b user=me password=secret")
    assert differences(service("collector", one), same) == []
    monkeypatch.setenv("PGHOST", "a")
    started = service("collector", replace(HOME, dsn="dbname=b"))
    monkeypatch.setenv("PGHOST", "c")
    assert differences(started, replace(HOME, dsn="dbname=b"))


def test_another_password_is_a_difference_that_shows_none() -> None:
    started = service("collector", replace(HOME, dsn="postgresql://me:secret@a/b"))
    found = differences(started, replace(HOME, dsn="postgresql://me:geheim@a/b"))
    text = " ".join(describe({"collector": found}))
    assert "BENCH_DSN" in text
    assert not any(secret in f"{text} {started}" for secret in ("secret", "geheim"))


def test_services_of_an_earlier_version_are_kept() -> None:
    assert differences(Service("collector", 1, 0.0, "", ""), replace(HOME, dsn="host=a")) == []


def test_differences_of_several_services_are_said_once() -> None:
    changed = replace(HOME, dsn="host=a dbname=b user=me port=1", simulate="1xH100")
    names = ("exporter-host", "exporter-nvml", "collector", "rules")
    found = {name: differences(service(name, HOME), changed) for name in names}
    assert describe(found) == (
        "exporters, collector and rules",
        "no BENCH_SIMULATE and no BENCH_DSN",
        "BENCH_SIMULATE=1xH100 and BENCH_DSN=dbname=b host=a port=1 user=me",
    )


def test_the_spool_of_another_database_is_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    for folder in (settings.stack_dir, settings.spool_dir):
        folder.mkdir()
    (settings.stack_dir / "spool.database").write_text("dbname=b host=a")
    segment = settings.spool_dir / "00000000000000000001.spool"
    segment.write_bytes(b"samples")
    for _ in range(2):
        with pytest.raises(BadRequest, match="dbname=b host=a"):
            require_own_spool(settings)
    segment.unlink()
    require_own_spool(settings)
    segment.write_bytes(b"samples of this database")
    require_own_spool(settings)
