"""Checks of a ``web.yml`` and its certificates, by a TLS handshake in memory."""

from __future__ import annotations

import datetime
import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509

from hypergauge.core.errors import BadRequest
from hypergauge.core.http.config import ServerTLS
from hypergauge.core.http.web_file import read_web_config

__all__ = ["Finding", "check", "names_of"]

# Subject, whether it is valid, and the details.
Finding = tuple[str, bool, str]

# A month suffices to renew and copy a certificate.
_SOON = datetime.timedelta(days=30)


def check(web: Path, names: Sequence[str]) -> Iterator[Finding]:
    """Yield findings on a ``web.yml``, for a host that clients know by one of `names`."""
    try:
        config = read_web_config(web)
        missing = config.missing
        yield str(web), not missing, f"lacks {' and '.join(missing)}" if missing else "TLS and authentication"
        if config.tls is not None:
            config.tls.context()
            yield from _certificate(config.tls, names)
            yield from _mode(config.tls.key)
    except BadRequest as error:
        yield str(web), False, str(error)


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses in a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(one.value) for one in found if isinstance(one, x509.DNSName | x509.IPAddress)]


def _read(path: Path) -> x509.Certificate:
    """Return the first certificate in a file.

    Raises
    ------
    BadRequest
        The file is unreadable, or has no certificate in PEM.
    """
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"cannot be read: {error.strerror}", file=path) from None
    except ValueError:
        raise BadRequest("is not a PEM certificate", file=path) from None


def _certificate(tls: ServerTLS, names: Sequence[str]) -> Iterator[Finding]:
    certificate = _read(tls.cert)
    now = datetime.datetime.now(datetime.UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    until = f"until {end:%Y-%m-%d}"
    if now < start:
        yield str(tls.cert), False, f"is valid only from {start:%Y-%m-%d %H:%M} UTC"
        return
    if now > end:
        yield str(tls.cert), False, f"has expired, on {end:%Y-%m-%d}"
        return
    if end - now < _SOON:
        yield str(tls.cert), False, f"ends soon: valid {until}"
    problems = {name: _handshake(tls, name) for name in names}
    for name, problem in problems.items():
        if problem is None:
            yield str(tls.cert), True, f"valid for {name}, {until}"
            return
    problem = problems[names[0]] or ""
    if "not valid for" in problem:
        problem += f"; it is for {', '.join(names_of(certificate)) or 'no name'}"
    yield str(tls.cert), False, problem


def _handshake(tls: ServerTLS, name: str) -> str | None:
    """Return the reason why a client of `name` rejects the server, ``None`` if it does not."""
    serving = tls.context()
    serving.verify_mode = ssl.CERT_NONE  # this client has no certificate
    client_tls = ssl.create_default_context()
    if tls.client_ca is not None:
        client_tls.load_verify_locations(tls.client_ca)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(there, back, server_side=True)
    client = client_tls.wrap_bio(back, there, server_hostname=name)
    for _ in range(10):  # flights; TLS needs three
        try:
            done = [_step(side) for side in (client, server)]
        except ssl.SSLError as error:
            found = re.search(r"certificate verify failed: (.*?)\.? \(_ssl", str(error))
            return found[1] if found else str(error.reason)
        if all(done):
            return None
    return "no end of the handshake"


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _mode(key: Path) -> Iterator[Finding]:
    mode = key.stat().st_mode & 0o777
    if mode & 0o007:
        yield str(key), False, f"all users may read it (mode {mode:o}): chmod 600, or 640 with a group of its own"
    else:
        yield str(key), True, f"fits the certificate, mode {mode:o}"
