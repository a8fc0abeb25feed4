"""``web.yml``: TLS and authentication of a server, as in Prometheus's exporter-toolkit (``--web.config.file``)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.errors import BadRequest

__all__ = ["ServerTLS", "WebConfig"]


@dataclass(frozen=True, slots=True)
class ServerTLS:
    """Options of ``tls_server_config``.

    Attributes
    ----------
    cert, key
        The server's certificate and key, in PEM.
    client_ca
        Authority of client certificates.
    clients
        Whether clients must present a certificate.
    allowed_sans
        Names or addresses, one of which a client's certificate must have; empty for any.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    clients: ssl.VerifyMode = ssl.CERT_NONE
    allowed_sans: frozenset[str] = frozenset()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def context(self) -> ssl.SSLContext:
        """Return the context of new connections, from the current files.

        Raises
        ------
        BadRequest
            A file is unreadable or has the wrong content, or the key belongs to another certificate.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version, made.maximum_version = self.min_version, self.max_version
        made.verify_mode = self.clients
        for path in self.files:
            _require_readable(path)
        try:
            made.load_cert_chain(self.cert, self.key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            if "KEY_VALUES_MISMATCH" in str(error):
                raise BadRequest(f"the key is not that of the certificate {self.cert}", file=self.key) from None
            raise BadRequest(
                f"is not a PEM certificate, or {self.key} is not a key without a password", file=self.cert
            ) from None
        if self.client_ca is not None:
            try:
                made.load_verify_locations(self.client_ca)
            except ssl.SSLError:
                raise BadRequest("is not a PEM certificate", file=self.client_ca) from None
        return made

    @property
    def files(self) -> list[Path]:
        """The files of certificates and keys."""
        return [path for path in (self.cert, self.key, self.client_ca) if path is not None]


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Content of a ``web.yml``.

    Attributes
    ----------
    tls
        ``None`` for plain HTTP.
    users
        ``basic_auth_users``: bcrypt hashes by user name; empty for no login.
    """

    tls: ServerTLS | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def missing(self) -> list[str]:
        """Missing protections of a server that other hosts can reach: TLS, authentication."""
        known = bool(self.users) or (self.tls is not None and self.tls.clients == ssl.CERT_REQUIRED)
        return [name for name, there in (("TLS", self.tls is not None), ("authentication", known)) if not there]


def _require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadRequest(f"cannot be read: {error.strerror}", file=path) from None


def _no_password() -> str:
    """Return an empty password; without it, OpenSSL prompts on the terminal."""
    return ""
