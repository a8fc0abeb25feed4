"""S3 server that requires keys."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.services import free_port
from tests.support.waiting import wait_for

BUCKET = "runs"


@dataclass(frozen=True)
class ObjectStore:
    """S3 server with the bucket ``runs``."""

    url: str
    port: int
    key: str
    secret: str

    def variables(self, url: str | None = None) -> dict[str, str]:
        """Return the environment of MLflow's server for this store, at `url` if given."""
        return {
            "MLFLOW_S3_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def objects(self) -> dict[str, bytes]:
        """Return the bucket's keys."""
        client = _client(self.url, self.key, self.secret)
        listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {one["Key"]: client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in listed}


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run a server; skip without its package."""
    pytest.importorskip("boto3", reason="boto3, of the extra s3, is not installed")
    pytest.importorskip("moto.server", reason="moto[server], of the development tools, is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (folder / "store.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"},  # the calls that create the keys and the bucket
            stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
    try:
        wait_for(lambda: _answers(url), "the store")
        people = _client(url, "anybody", "any", "iam")
        people.create_user(UserName="lab")
        key = people.create_access_key(UserName="lab")["AccessKey"]
        everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
        people.put_user_policy(UserName="lab", PolicyName="all", PolicyDocument=json.dumps(everything))
        _client(url, "anybody", "any").create_bucket(Bucket=BUCKET)
        yield ObjectStore(url, port, key["AccessKeyId"], key["SecretAccessKey"])
    finally:
        server.terminate()
        server.wait()


def _client(url: str, key: str, secret: str, service: str = "s3") -> Any:
    import boto3

    return boto3.client(
        service, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
    )


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/moto-api/", timeout=2):
        return True
    return False
