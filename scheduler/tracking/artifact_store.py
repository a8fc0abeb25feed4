"""Artifact store of a local tracking server: keys and checks."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import secret
from hypergauge.core.errors import BadRequest, TrackingUnavailable

__all__ = ["require_store", "store_keys"]

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_ENDPOINT = "MLFLOW_S3_ENDPOINT_URL"
# Timeout of a request to the store. Artifacts that an unreachable store misses are delivered later.
_TIMEOUT_SECONDS = 3.0


def store_keys() -> dict[str, str]:
    """Return the keys as variables for MLflow's server, which cannot read them from files."""
    return {name: value for name in _KEYS if (value := secret(name))}


def require_store(destination: str) -> None:
    """Validate the destination of artifacts: accept any folder, and check the bucket of ``s3://BUCKET/PREFIX``.

    Raises
    ------
    BadRequest
        The destination has another form, the bucket does not exist, or its keys are missing or wrong. The message does
        not contain the keys.
    TrackingUnavailable
        The store does not answer.
    """
    if "://" not in destination:
        return
    url = urlsplit(destination)
    if url.scheme != "s3" or not url.netloc or "@" in url.netloc or url.query:
        raise BadRequest(f"artifacts is {without_login(destination)!r}, but must be a folder or s3://BUCKET/PREFIX")
    _look(url.netloc)


def _look(bucket: str) -> None:
    """Check that the store has the bucket and accepts the keys."""
    try:
        import boto3  # an optional dependency: most users keep artifacts in a folder
        from botocore import exceptions
        from botocore.config import Config
    except ImportError:
        raise BadRequest("artifacts in s3://… need boto3: pip install 'hypergauge[s3]'") from None
    endpoint = os.environ.get(_ENDPOINT)
    where = f"the store {without_login(endpoint)}" if endpoint else "S3"
    key, password, token = (secret(name) or None for name in _KEYS)
    once = Config(connect_timeout=_TIMEOUT_SECONDS, read_timeout=_TIMEOUT_SECONDS, retries={"total_max_attempts": 1})
    try:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=password,
            aws_session_token=token,
            config=once,
        )
        client.head_bucket(Bucket=bucket)
    except exceptions.NoCredentialsError:
        raise BadRequest(f"there are no keys for {where}: set {_KEYS[0]} and {_KEYS[1]}, or {_KEYS[1]}_FILE") from None
    except exceptions.ClientError as error:
        status = int(error.response["ResponseMetadata"]["HTTPStatusCode"])
        if status == 404:
            raise BadRequest(f"{where} has no bucket {bucket!r}") from None
        if status in (400, 401, 403):
            raise BadRequest(
                f"{where} refuses {_KEYS[0]} and {_KEYS[1]}, or does not let them use {bucket!r}"
            ) from None
        raise TrackingUnavailable(f"{where} answers {status}") from None
    except (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
    ) as error:  # the network: no connection, no answer, no TLS
        raise TrackingUnavailable(f"{where} does not answer ({type(error).__name__})") from None
    except (exceptions.BotoCoreError, ValueError) as error:
        raise BadRequest(f"artifacts in {bucket!r} of {where} cannot be checked: {type(error).__name__}") from None
