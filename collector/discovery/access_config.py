"""Model of a target's access in a targets file: credentials, TLS, redirects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from hypergauge.collector.discovery.prometheus_fields import TLS_UNSUPPORTED
from hypergauge.collector.http.access import TLS, Access, Secret
from hypergauge.core.config.model import Flag, Refused, Section

__all__ = ["AccessSection"]

_LOGINS = ("basic_auth", "authorization", "bearer_token", "bearer_token_file")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class _Secrets(Section):
    """Mapping with secrets, each as ``NAME`` or as ``NAME_file``."""

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        for name in self.model_fields_set:
            if f"{name}_file" in self.model_fields_set:
                raise Refused(f"{name}_file", f"there are both {name} and {name}_file", at_key=True)
        return self

    def secret(self, name: str, folder: Path) -> Secret | None:
        """Return the secret called `name`; its file is relative to `folder`."""
        if (file := getattr(self, f"{name}_file")) is not None:
            return Secret(file=folder / file)
        value = getattr(self, name)
        return None if value is None else Secret(value)


class _BasicAuth(_Secrets):
    username: str | None = None
    username_file: str | None = None
    password: str | None = None
    password_file: str | None = None


class _Authorization(_Secrets):
    type: str = "Bearer"
    credentials: str | None = None
    credentials_file: str | None = None

    @model_validator(mode="after")
    def _one_word(self) -> Self:
        if not _TOKEN.fullmatch(self.type):
            raise Refused("type", "the type of an authorization is one word")
        if self.type.lower() == "basic":
            raise Refused("type", "for the type Basic there is basic_auth")
        return self


class _Tls(_Secrets):
    unsupported: ClassVar = TLS_UNSUPPORTED

    ca: str | None = None
    ca_file: str | None = None
    cert: str | None = None
    cert_file: str | None = None
    key: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: Flag = False

    @model_validator(mode="after")
    def _pair(self) -> Self:
        given = self.model_fields_set
        if given.isdisjoint(("cert", "cert_file")) != given.isdisjoint(("key", "key_file")):
            raise Refused(None, "a certificate and its key go together: cert or cert_file, and key or key_file")
        return self


class AccessSection(_Secrets):
    """Access fields of a job or of a service discovery."""

    basic_auth: _BasicAuth | None = None
    authorization: _Authorization | None = None
    bearer_token: str | None = None
    bearer_token_file: str | None = None
    tls_config: _Tls | None = None
    follow_redirects: Flag = True

    @model_validator(mode="before")
    @classmethod
    def _one_login(cls, value: Any) -> Any:
        ways = [key for key in value if key in _LOGINS] if isinstance(value, dict) else []
        if len(ways) > 1:
            raise Refused(ways[-1], "there is a second way to log in", at_key=True)
        return value

    def access(self, folder: Path) -> Access:
        """Return the access; files are relative to `folder`."""
        found: dict[str, Any] = {"follow_redirects": self.follow_redirects}
        if self.basic_auth is not None:
            found["username"] = self.basic_auth.secret("username", folder)
            found["password"] = self.basic_auth.secret("password", folder)
        elif self.authorization is not None:
            found["scheme"] = self.authorization.type
            found["credentials"] = self.authorization.secret("credentials", folder)
        else:
            found["credentials"] = self.secret("bearer_token", folder)
        if (tls := self.tls_config) is not None:
            ca, cert, key = (tls.secret(name, folder) for name in ("ca", "cert", "key"))
            found["tls"] = TLS(ca, cert, key, tls.server_name or None, tls.insecure_skip_verify)
        return Access(**found)
