"""Access to a target: credentials, TLS and limits, with Prometheus's fields."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.errors import BenchError

__all__ = ["TLS", "Access", "Secret", "SecretUnreadable"]


class SecretUnreadable(BenchError):
    """A file with a secret, a key or a certificate is unusable."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Secret value, or the file that holds it; never shown."""

    value: str = field(default="", repr=False)
    file: Path | None = None

    def read(self) -> str:
        """Return the current secret.

        Raises
        ------
        SecretUnreadable
            The file is unreadable.
        """
        if self.file is None:
            return self.value
        try:
            return self.file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
            raise SecretUnreadable(f"{self.file} cannot be read: {reason}") from None


@dataclass(frozen=True, slots=True)
class TLS:
    """Options of ``tls_config``.

    Attributes
    ----------
    ca, cert, key
        In PEM; without `ca`, the certificates that this host trusts.
    server_name
        Name in the certificate, if it is not the address's host.
    """

    ca: Secret | None = None
    cert: Secret | None = None
    key: Secret | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False

    def context(self) -> ssl.SSLContext:
        """Return a context for a connection, from the current files.

        Raises
        ------
        SecretUnreadable
            A file is unreadable or has the wrong content.
        """
        try:
            made = ssl.create_default_context(cadata=self.ca.read() if self.ca else None)
            if self.insecure_skip_verify:
                made.check_hostname = False
                made.verify_mode = ssl.CERT_NONE
            if self.cert and self.key:
                with _as_file(self.cert) as cert, _as_file(self.key) as key:
                    made.load_cert_chain(cert.path, key.path)
        except (ssl.SSLError, ValueError, OSError) as error:  # only the error's type: its text may quote the file
            files = [str(one.file) for one in (self.ca, self.cert, self.key) if one and one.file]
            named = " or ".join(files) or "what tls_config holds"
            raise SecretUnreadable(f"{named} is not what TLS needs ({type(error).__name__})") from None
        return made

    def files(self) -> list[Path]:
        """Return the files of the context."""
        return [one.file for one in (self.ca, self.cert, self.key) if one and one.file]


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials, TLS and redirects of an HTTP request. Equal ones share their connections.

    Attributes
    ----------
    username, password
        ``basic_auth``.
    scheme, credentials
        ``authorization``, or ``bearer_token``.
    """

    username: Secret | None = None
    password: Secret | None = None
    scheme: str = "Bearer"
    credentials: Secret | None = None
    tls: TLS | None = None
    follow_redirects: bool = True

    def headers(self) -> dict[str, str]:
        """Return the request headers, from the current files.

        Raises
        ------
        SecretUnreadable
            A file is unreadable, or its content is invalid in a header.
        """
        if self.credentials is not None:
            value = f"{self.scheme} {self.credentials.read()}"
        elif self.username is not None or self.password is not None:
            login = ":".join(one.read() if one else "" for one in (self.username, self.password))
            value = f"Basic {base64.b64encode(login.encode()).decode()}"
        else:
            return {}
        if not value.isprintable():
            raise SecretUnreadable("the credentials hold a line end or another character that no header may have")
        return {"Authorization": value}

    def files(self) -> list[Path]:
        """Return all files of the access."""
        own = [one.file for one in (self.username, self.password, self.credentials) if one and one.file]
        return own + (self.tls.files() if self.tls else [])


class _as_file:  # noqa: N801 - a context manager, read as a verb
    """Path of a secret: its own file, or a file in memory."""

    def __init__(self, secret: Secret) -> None:
        self._secret, self._descriptor = secret, -1
        self.path = ""

    def __enter__(self) -> _as_file:
        if self._secret.file is not None:
            self.path = str(self._secret.file)
        else:
            self._descriptor = os.memfd_create("secret")
            os.write(self._descriptor, self._secret.value.encode())
            self.path = f"/proc/self/fd/{self._descriptor}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
