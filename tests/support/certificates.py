"""Certificates of a site, and files about them."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.collector.http.access import TLS, Secret
from hypergauge.core.http.certificate_authority import Authority


@dataclass(frozen=True)
class Site:
    """An authority with the certificates that were asked of it, all in one folder."""

    folder: Path
    name: str = "a site"
    authority: Authority = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", Authority.make(self.name))
        self.authority.write(self.folder)

    def issue(self, name: str, *names: str, since_days: int = 0, days: int = 30, stem: str = "") -> str:
        """Write ``STEM.pem`` and ``STEM.key`` for `name` and `names`; return the stem, which is `name` otherwise."""
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=since_days)
        cert, key = self.authority.issue([name, *names], since=since, days=days)
        stem = stem or name
        for suffix, content in ((".pem", cert), (".key", key)):
            path = self.folder / f"new{suffix}"
            path.write_bytes(content)
            path.chmod(0o600)
            path.rename(self.folder / f"{stem}{suffix}")
        return stem

    def web(self, stem: str, *, clients: bool = True, extra: str = "", users: str = "", of: str = "") -> Path:
        """Write a ``web.yml`` for the certificate `stem`, which asks clients for one of this site."""
        path = self.folder / f"web-{of or stem}.yml"
        asked = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n" if clients else ""
        text = f"tls_server_config:\n  cert_file: {stem}.pem\n  key_file: {stem}.key\n{asked}{extra}"
        path.write_text(text + (f"basic_auth_users:\n{users}" if users else ""))
        return path

    def tls(self, stem: str | None = None) -> TLS:
        """Return what trusts this site, and shows the certificate `stem`."""
        cert = Secret(file=self.folder / f"{stem}.pem") if stem else None
        key = Secret(file=self.folder / f"{stem}.key") if stem else None
        return TLS(Secret(file=self.folder / "ca.pem"), cert, key)

    def client_context(self, stem: str) -> ssl.SSLContext:
        """Return the same for Python's own clients."""
        return self.trusting(self.folder / "ca.pem", self.folder / f"{stem}.pem", self.folder / f"{stem}.key")

    @staticmethod
    def trusting(ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
        """Return what trusts `ca`, and shows a certificate."""
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(cert, key)
        return context
