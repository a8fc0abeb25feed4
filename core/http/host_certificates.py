"""Certificates of a site's hosts, each in a folder to be copied to its host."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from hypergauge.core.errors import BadRequest
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.http.certificate_authority import Authority, certificate_of, names_of

__all__ = ["SOON", "Issued", "prepare"]

# Before a certificate ends by this much it is renewed: a month leaves time to copy it.
SOON = datetime.timedelta(days=30)
# By which a host's own collector and people find its exporters. They lead nowhere else.
_LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]*[A-Za-z0-9])?")
_WEB = """\
# For --web-config, BENCH_WEB_CONFIG and web_config in bench.toml. Names of files count from this folder.
tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
"""


@dataclass(frozen=True, slots=True)
class Issued:
    """Issued certificate, with what was done for it.

    Attributes
    ----------
    host
        The first of its names; empty for the authority's own.
    state
        ``made``, ``renewed`` or ``kept``.
    folder
        Where it lies.
    names
        What it is for.
    until
        When it ends.
    """

    host: str
    state: str
    folder: Path
    names: list[str]
    until: datetime.datetime


def prepare(folder: Path, hosts: Iterable[Sequence[str]]) -> list[Issued]:
    """Make what is missing and renew what ends soon, in a folder; again is harmless.

    Parameters
    ----------
    hosts
        Of each, its name and what else it is called by: other names and addresses. Those that have a certificate already
        need not be named again.

    Raises
    ------
    BadRequest
        A name is none, or what lies in the folder cannot be used.
    """
    wanted: dict[str, list[str]] = {
        path.name: [] for path in sorted(folder.glob("*/")) if (path / "cert.pem").is_file()
    }
    for names in hosts:
        for name in names:
            if not _NAME.fullmatch(name):
                raise BadRequest(f"{name!r} is no name of a host, and no address")
        wanted.setdefault(names[0], []).extend(names)
    authority, state = _authority(folder)
    done = [Issued("", state, folder, [], authority.certificate.not_valid_after_utc)]
    return [*done, *(_host(authority, folder / host, host, names) for host, names in wanted.items())]


def _authority(folder: Path) -> tuple[Authority, str]:
    there = any((folder / name).exists() for name in ("ca.pem", "ca.key"))
    if there and not _ends_soon((known := Authority.read(folder)).certificate):
        return known, "kept"
    made = Authority.make("hypergauge")
    made.write(folder)
    return made, "renewed" if there else "made"


def _host(authority: Authority, folder: Path, host: str, names: Sequence[str]) -> Issued:
    private.make_folder(folder)
    there = (folder / "cert.pem").is_file()
    known = certificate_of(folder / "cert.pem") if there else None
    wanted = list(dict.fromkeys([host, *names, *(names_of(known) if known is not None else ()), *_LOCAL]))
    write_atomically(folder / "ca.pem", authority.pem, 0o644)
    if not (folder / "web.yml").exists():
        write_atomically(folder / "web.yml", _WEB, 0o644)
    if known is not None and (folder / "key.pem").is_file() and _is_good(known, authority, wanted):
        return Issued(host, "kept", folder, wanted, known.not_valid_after_utc)
    cert, key = authority.issue(wanted)
    write_atomically(folder / "key.pem", key, 0o600)
    write_atomically(folder / "cert.pem", cert, 0o644)
    return Issued(
        host, "renewed" if there else "made", folder, wanted, certificate_of(folder / "cert.pem").not_valid_after_utc
    )


def _is_good(known: x509.Certificate, authority: Authority, names: Sequence[str]) -> bool:
    try:
        known.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return set(names) <= set(names_of(known)) and not _ends_soon(known)


def _ends_soon(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < SOON
