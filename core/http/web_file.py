"""Models of a ``web.yml``."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hypergauge.core.config.document import Document, Scalar
from hypergauge.core.config.model import Items, Refused, Section, validated
from hypergauge.core.http.config import ServerTLS, WebConfig

__all__ = ["read_web_config"]

_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# Values that request a certificate and accept any.
_TAKE_ANY = ("RequestClientCert", "RequireAnyClientCert")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_BCRYPT = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}")


def read_web_config(path: Path) -> WebConfig:
    """Read a file; relative paths are relative to its folder.

    Raises
    ------
    BadRequest
        The file is unreadable or has errors; the message lists all with line and column.
    """
    document = Document.read(path)
    if document.content is None:
        return WebConfig()
    found = validated(_File, document)
    tls = found.tls_server_config
    users = {str(name): hashed.encode() for name, hashed in found.basic_auth_users.items()}
    return WebConfig(tls.server_tls(path.parent) if tls is not None and tls.model_fields_set else None, users)


def _verifying(value: Any) -> Any:
    if value in _TAKE_ANY:
        raise ValueError(f"{value!s} accepts any certificate: write RequireAndVerifyClientCert, or NoClientCert")
    return value or "NoClientCert"


class _Tls(Section):
    """Options of ``tls_server_config``."""

    unsupported: ClassVar = (
        "cert", "key", "client_ca", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences",
    )  # fmt: skip

    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str | None = None
    client_auth_type: Annotated[
        Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"], BeforeValidator(_verifying)
    ] = "NoClientCert"
    client_allowed_sans: Items[str] = Field((), description="a list of names and addresses")
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"

    @model_validator(mode="after")
    def _together(self) -> Self:
        for name in ("cert_file", "key_file"):
            if self.model_fields_set and not getattr(self, name):
                raise Refused(None, f"there is no {name}: a certificate and its key go together")
        if (self.client_auth_type == "NoClientCert") != (self.client_ca_file is None):
            message = "client_ca_file and a client_auth_type, such as RequireAndVerifyClientCert, go together"
            raise Refused(None, message)
        if self.client_allowed_sans and self.client_auth_type != "RequireAndVerifyClientCert":
            message = "it takes client_auth_type: RequireAndVerifyClientCert"
            raise Refused("client_allowed_sans", message, at_key=True)
        if self.min_version > self.max_version:
            raise Refused("max_version", "max_version is below min_version")
        return self

    def server_tls(self, folder: Path) -> ServerTLS:
        """Return the configuration; files are relative to `folder`."""
        return ServerTLS(
            folder / self.cert_file,
            folder / self.key_file,
            folder / self.client_ca_file if self.client_ca_file is not None else None,
            _CLIENTS[self.client_auth_type],
            frozenset(self.client_allowed_sans),
            _VERSIONS[self.min_version],
            _VERSIONS[self.max_version],
        )


class _Http(Section):
    """Options of ``http_server_config``. Servers use HTTP/1.1, regardless of the options for HTTP/2."""

    unsupported: ClassVar = ("headers",)

    http2: Any = None


class _File(Section):
    """Content of a ``web.yml``."""

    unsupported: ClassVar = ("rate_limit",)

    tls_server_config: _Tls | None = None
    basic_auth_users: dict[Scalar, Scalar] = Field({}, description="a mapping of users to hashes")
    http_server_config: _Http | None = None

    @field_validator("basic_auth_users")
    @classmethod
    def _hashes(cls, users: dict[Scalar, Scalar]) -> dict[Scalar, Scalar]:
        for name, hashed in users.items():
            if not name or ":" in name:
                raise Refused(name, "a user's name is not empty, and has no colon", at_key=True)
            if not _BCRYPT.fullmatch(hashed):  # not shown: it may be the password itself
                message = f"not a bcrypt hash: write the output of `htpasswd -nBC 10 {name}` after the colon"
                raise Refused(name, message)
        return users
