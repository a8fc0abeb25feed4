"""Certificates of a site, and configuration files with them."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypergauge.collector.http.access import TLS, Secret

# Valid a little earlier than now, for clocks that are behind.
_LEEWAY = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Certificate authority: its certificate and key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str) -> Authority:
        """Return a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        made = (
            _builder(subject, subject, key.public_key(), datetime.datetime.now(datetime.UTC), 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(made, key)

    def write(self, folder: Path) -> None:
        """Write ``ca.pem`` and ``ca.key`` to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.key").write_bytes(_key_pem(self.key))
        (folder / "ca.pem").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, names: Sequence[str], *, since: datetime.datetime | None = None, days: int = 365
    ) -> tuple[bytes, bytes]:
        """Return a certificate and its key for `names`, host names or addresses; servers and clients can use it."""
        key = ec.generate_private_key(ec.SECP256R1())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        start = since or datetime.datetime.now(datetime.UTC)
        made = (
            _builder(_subject(names[0]), self.certificate.subject, key.public_key(), start, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM), _key_pem(key)


@dataclass(frozen=True)
class Site:
    """Certificate authority with its certificates, in one folder."""

    folder: Path
    name: str = "a site"
    authority: Authority = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", Authority.make(self.name))
        self.authority.write(self.folder)

    def issue(self, name: str, *names: str, since_days: int = 0, days: int = 30, stem: str = "") -> str:
        """Write ``STEM.pem`` and ``STEM.key`` for `name` and `names`; return the stem, by default `name`."""
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
        """Write a ``web.yml`` with the certificate `stem` that requires client certificates of this site."""
        path = self.folder / f"web-{of or stem}.yml"
        required = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n" if clients else ""
        text = f"tls_server_config:\n  cert_file: {stem}.pem\n  key_file: {stem}.key\n{required}{extra}"
        path.write_text(text + (f"basic_auth_users:\n{users}" if users else ""))
        return path

    def tls(self, stem: str | None = None) -> TLS:
        """Return a TLS configuration that trusts this site, with the client certificate `stem`."""
        cert = Secret(file=self.folder / f"{stem}.pem") if stem else None
        key = Secret(file=self.folder / f"{stem}.key") if stem else None
        return TLS(Secret(file=self.folder / "ca.pem"), cert, key)

    def client_context(self, stem: str) -> ssl.SSLContext:
        """Return the same configuration for Python's own clients."""
        return self.trusting(self.folder / "ca.pem", self.folder / f"{stem}.pem", self.folder / f"{stem}.key")

    @staticmethod
    def trusting(ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
        """Return a TLS context that trusts `ca`, with a client certificate."""
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(cert, key)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _LEEWAY)
        .not_valid_after(start + datetime.timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])  # the longest allowed common name


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
