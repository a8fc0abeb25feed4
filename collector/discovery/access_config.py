"""Parser of a target's access in a targets file: credentials, TLS, redirects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from hypergauge.collector.discovery.prometheus_fields import TLS_UNSUPPORTED
from hypergauge.collector.http.access import TLS, Access, Secret
from hypergauge.core.config.document import Document, Fields

__all__ = ["ACCESS", "read_access"]

ACCESS = ("basic_auth", "authorization", "bearer_token", "bearer_token_file", "tls_config", "follow_redirects")
_LOGINS = ACCESS[:4]
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def read_access(document: Document, given: Fields, folder: Path) -> Access:
    """Return what the fields of a job or of a service say; paths count from `folder`.

    Raises
    ------
    BadRequest
        They contradict each other, or one is wrong.
    """
    found: dict[str, Any] = {}
    if "follow_redirects" in given:
        found["follow_redirects"] = document.boolean(given["follow_redirects"][1])
    ways = [given[name][0] for name in _LOGINS if name in given]
    if len(ways) > 1:
        document.fail(max(ways, key=lambda key: key.start_mark.index), "there is a second way to log in")
    if "basic_auth" in given:
        names = ("username", "username_file", "password", "password_file")
        login = document.fields(given["basic_auth"][1], "a mapping", names)
        found["username"] = _secret(document, login, "username", folder)
        found["password"] = _secret(document, login, "password", folder)
    elif "authorization" in given:
        login = document.fields(given["authorization"][1], "a mapping", ("type", "credentials", "credentials_file"))
        found["scheme"] = document.text(login["type"][1], "a string") if "type" in login else "Bearer"
        if not _TOKEN.fullmatch(found["scheme"]):
            document.fail(login["type"][1], "the type of an authorization is one word")
        if found["scheme"].lower() == "basic":
            document.fail(login["type"][1], "for the type Basic there is basic_auth")
        found["credentials"] = _secret(document, login, "credentials", folder)
    else:
        found["credentials"] = _secret(document, given, "bearer_token", folder)
    if "tls_config" in given:
        found["tls"] = _tls(document, given["tls_config"][1], folder)
    return Access(**found)


def _tls(document: Document, node: yaml.Node, folder: Path) -> TLS:
    secrets = ("ca", "cert", "key")
    known = (*secrets, *(f"{name}_file" for name in secrets), "server_name", "insecure_skip_verify")
    given = document.fields(node, "a mapping", known, TLS_UNSUPPORTED)
    ca, cert, key = (_secret(document, given, name, folder) for name in secrets)
    if (cert is None) != (key is None):
        document.fail(node, "a certificate and its key go together: cert or cert_file, and key or key_file")
    return TLS(
        ca,
        cert,
        key,
        document.text(given["server_name"][1], "a string") or None if "server_name" in given else None,
        document.boolean(given["insecure_skip_verify"][1]) if "insecure_skip_verify" in given else False,
    )


def _secret(document: Document, given: Fields, name: str, folder: Path) -> Secret | None:
    file = f"{name}_file"
    if name in given and file in given:
        document.fail(given[file][0], f"there are both {name} and {file}")
    if file in given:
        return Secret(file=folder / document.text(given[file][1], "a file's name"))
    return Secret(document.text(given[name][1], "a string")) if name in given else None
