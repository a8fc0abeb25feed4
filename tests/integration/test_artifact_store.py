"""Artifacts in a store that speaks S3, through MLflow's server: all of them, also where the store was away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BadRequest, TrackingUnavailable
from bench.services import free_port
from scheduler.artifact_store import require_store
from tests.object_store import ObjectStore, object_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


def test_a_store_that_is_away_is_no_reason_not_to_start(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.variables(f"http://127.0.0.1:{free_port()}").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrackingUnavailable, match="does not answer"):
        require_store("s3://runs/lab")


@pytest.mark.parametrize(
    ("destination", "changed", "message"),
    [
        ("s3://runs", {"AWS_SECRET_ACCESS_KEY": "hunter2"}, "refuses AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://runs", {"AWS_ACCESS_KEY_ID": "hunter2"}, "refuses AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://runs", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "there are no keys for the store"),
        ("s3://absent/lab", {}, "has no bucket 'absent'"),
        ("s3:///lab", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("s3://ann:hunter2@runs", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("gs://runs", {}, "must be a folder or s3://BUCKET/PREFIX"),
        ("s3://runs", {"MLFLOW_S3_ENDPOINT_URL": "nowhere"}, "cannot be asked for: ValueError"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_without_its_keys(
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    destination: str,
    changed: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in (store.variables() | changed).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadRequest) as refused:
        require_store(destination)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert store.secret not in str(refused.value)


def test_boto3_is_asked_for_where_it_is_needed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    require_store("/srv/artifacts")
    with pytest.raises(BadRequest, match=r"need boto3: pip install 'hypergauge\[s3\]'"):
        require_store("s3://runs")
