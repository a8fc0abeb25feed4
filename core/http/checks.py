"""Checks of a ``web.yml`` and its certificates, by a TLS handshake in memory."""

from __future__ import annotations

import datetime
import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypergauge.core.errors import BadRequest
from hypergauge.core.http.certificate_authority import certificate_of, names_of
from hypergauge.core.http.config import ServerTLS, WebConfig
from hypergauge.core.http.host_certificates import SOON

__all__ = ["Finding", "check"]

# What was looked at, whether it will do, and what there is to say.
Finding = tuple[str, bool, str]


def check(web: Path, names: Sequence[str]) -> Iterator[Finding]:
    """Yield what is to be said of a ``web.yml`` for a host that others ask for by one of `names`."""
    try:
        config = WebConfig.read(web)
        missing = config.missing
        yield str(web), not missing, f"lacks {' and '.join(missing)}" if missing else "TLS and authentication"
        if config.tls is not None:
            config.tls.context()
            yield from _certificate(config.tls, names)
            yield from _mode(config.tls.key)
    except BadRequest as error:
        yield str(web), False, str(error)


def _certificate(tls: ServerTLS, names: Sequence[str]) -> Iterator[Finding]:
    certificate = certificate_of(tls.cert)
    now = datetime.datetime.now(datetime.UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    until = f"until {end:%Y-%m-%d}"
    if now < start:
        yield str(tls.cert), False, f"holds only from {start:%Y-%m-%d %H:%M} UTC on"
        return
    if now > end:
        yield str(tls.cert), False, f"has expired, on {end:%Y-%m-%d}"
        return
    if end - now < SOON:
        yield str(tls.cert), False, f"ends soon: it holds {until}"
    said = {name: _handshake(tls, name) for name in names}
    for name, problem in said.items():
        if problem is None:
            yield str(tls.cert), True, f"{name} is known by it, {until}"
            return
    problem = said[names[0]] or ""
    if "not valid for" in problem:
        problem += f"; it is for {', '.join(names_of(certificate)) or 'no name'}"
    yield str(tls.cert), False, problem


def _handshake(tls: ServerTLS, name: str) -> str | None:
    """Return why a client that asks for `name` would not trust the server, ``None`` where it would."""
    serving = tls.context()
    serving.verify_mode = ssl.CERT_NONE  # who the client is, is not the question
    asking = ssl.create_default_context()
    if tls.client_ca is not None:
        asking.load_verify_locations(tls.client_ca)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(there, back, server_side=True)
    client = asking.wrap_bio(back, there, server_hostname=name)
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
        yield str(key), False, f"everybody may read it (mode {mode:o}): chmod 600, or 640 with a group of its own"
    else:
        yield str(key), True, f"the certificate's, mode {mode:o}"
