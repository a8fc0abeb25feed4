"""Small certificate authority of a site."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypergauge.core.errors import BadRequest
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["CA_DAYS", "HOST_DAYS", "Authority", "certificate_of", "names_of"]

CA_DAYS = 3650
HOST_DAYS = 365
# A clock that is a little behind is no reason to refuse.
_LEEWAY = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that others trust, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str) -> Authority:
        """Return a new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        made = (
            _builder(subject, subject, key.public_key(), datetime.datetime.now(datetime.UTC), CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(made, key)

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """Return the one that `write` has laid into a folder.

        Raises
        ------
        BadRequest
            A file of it cannot be used.
        """
        key_file = folder / "ca.key"
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        except OSError as error:
            raise BadRequest(f"cannot be read: {error.strerror}", file=key_file) from None
        except (ValueError, TypeError):
            raise BadRequest("is no key in PEM without a password", file=key_file) from None
        certificate = certificate_of(folder / "ca.pem")
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise BadRequest(f"is not the key of {folder / 'ca.pem'}", file=key_file)
        return cls(certificate, key)

    def write(self, folder: Path) -> None:
        """Lay both into a folder, the key for its owner alone."""
        private.make_folder(folder)
        write_atomically(folder / "ca.key", _key_pem(self.key), 0o600)
        write_atomically(folder / "ca.pem", self.pem, 0o644)

    @property
    def pem(self) -> bytes:
        """The certificate, for whoever is to trust it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, names: Sequence[str], *, since: datetime.datetime | None = None, days: int = HOST_DAYS
    ) -> tuple[bytes, bytes]:
        """Return a certificate for `names` (of hosts, or addresses) and its key; it is good for servers and for clients."""
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


def certificate_of(path: Path) -> x509.Certificate:
    """Return the first certificate in a file.

    Raises
    ------
    BadRequest
        It cannot be read, or holds none in PEM.
    """
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"cannot be read: {error.strerror}", file=path) from None
    except ValueError:
        raise BadRequest("is no certificate in PEM", file=path) from None


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(one.value) for one in found if isinstance(one, x509.DNSName | x509.IPAddress)]


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
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])  # as long as one may be


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
