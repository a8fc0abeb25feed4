"""``web.yml``: TLS and authentication of a server, as in Prometheus's exporter-toolkit (``--web.config.file``)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hypergauge.core.config.document import Document, Fields
from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["ServerTLS", "WebConfig"]

_FILES = ("cert_file", "key_file", "client_ca_file")
_KNOWN = (*_FILES, "client_auth_type", "client_allowed_sans", "min_version", "max_version")
_FOREIGN = ("cert", "key", "client_ca", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences")
_SECTIONS = ("tls_server_config", "basic_auth_users", "http_server_config")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# They ask for a certificate, and take anybody's.
_TAKE_ANY = ("RequestClientCert", "RequireAnyClientCert")
_BCRYPT = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class ServerTLS:
    """``tls_server_config``.

    Attributes
    ----------
    cert, key
        The server's own, in PEM.
    client_ca
        Whose certificates clients may show.
    clients
        Whether they have to.
    allowed_sans
        Names or addresses, one of which a client's certificate has to be for; empty for any.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    clients: ssl.VerifyMode = ssl.CERT_NONE
    allowed_sans: frozenset[str] = frozenset()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def context(self) -> ssl.SSLContext:
        """Return it for connections, from the files as they are by now.

        Raises
        ------
        BadRequest
            A file cannot be read, holds something else, or the key is another certificate's.
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
                f"is no certificate in PEM, or {self.key} no key without a password", file=self.cert
            ) from None
        if self.client_ca is not None:
            try:
                made.load_verify_locations(self.client_ca)
            except ssl.SSLError:
                raise BadRequest("is no certificate in PEM", file=self.client_ca) from None
        return made

    @property
    def files(self) -> list[Path]:
        """The files that it is made from."""
        return [path for path in (self.cert, self.key, self.client_ca) if path is not None]


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Content of one ``web.yml``.

    Attributes
    ----------
    tls
        ``None`` for plain HTTP.
    users
        ``basic_auth_users``: the bcrypt hash of each one's password; empty where nobody has to log in.
    """

    tls: ServerTLS | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> WebConfig:
        """Read a file; relative paths count from its folder.

        Raises
        ------
        BadRequest
            It cannot be read or has an error, with its line and column.
        """
        document = Document.read(path)
        if document.root is None:
            return cls()
        given = document.fields(document.root, "a mapping", _SECTIONS, ("rate_limit",))
        if "http_server_config" in given:  # HTTP/1.1 is what we speak, whatever it says of HTTP/2
            document.fields(given["http_server_config"][1], "a mapping", ("http2",), ("headers",))
        tls = _tls(document, given["tls_server_config"][1]) if "tls_server_config" in given else None
        return cls(tls, _users(document, given["basic_auth_users"][1]) if "basic_auth_users" in given else {})

    @property
    def missing(self) -> list[str]:
        """Missing protection of a server that other hosts may reach: TLS, authentication."""
        known = bool(self.users) or (self.tls is not None and self.tls.clients == ssl.CERT_REQUIRED)
        return [what for what, there in (("TLS", self.tls is not None), ("authentication", known)) if not there]


def _tls(document: Document, node: yaml.Node) -> ServerTLS | None:
    given = document.fields(node, "a mapping", _KNOWN, _FOREIGN)
    if not given:
        return None
    files = {
        name: Path(document.path).parent / document.text(given[name][1], "a file's name")
        for name in _FILES
        if name in given
    }
    for name in ("cert_file", "key_file"):
        if name not in files:
            document.fail(node, f"there is no {name}: a certificate and its key go together")
    clients, sans = _clients(document, given), _sans(document, given)
    if (clients == ssl.CERT_NONE) != ("client_ca_file" not in files):
        document.fail(node, "client_ca_file and a client_auth_type, such as RequireAndVerifyClientCert, go together")
    if sans and clients != ssl.CERT_REQUIRED:
        document.fail(given["client_allowed_sans"][0], "it takes client_auth_type: RequireAndVerifyClientCert")
    least, most = (_version(document, given, name) for name in ("min_version", "max_version"))
    if least is not None and most is not None and least > most:
        document.fail(given["max_version"][1], "max_version is below min_version")
    return ServerTLS(
        files["cert_file"],
        files["key_file"],
        files.get("client_ca_file"),
        clients,
        sans,
        least or ssl.TLSVersion.TLSv1_2,
        most or ssl.TLSVersion.TLSv1_3,
    )


def _clients(document: Document, given: Fields) -> ssl.VerifyMode:
    if "client_auth_type" not in given:
        return ssl.CERT_NONE
    node = given["client_auth_type"][1]
    text = document.text(node, "a string") or "NoClientCert"
    if text in _TAKE_ANY:
        document.fail(node, f"{text} takes anybody's certificate: write RequireAndVerifyClientCert, or NoClientCert")
    if text not in _CLIENTS:
        document.fail(node, f"unknown {text!r}{did_you_mean(text, _CLIENTS)}")
    return _CLIENTS[text]


def _sans(document: Document, given: Fields) -> frozenset[str]:
    if "client_allowed_sans" not in given:
        return frozenset()
    items = document.items(given["client_allowed_sans"][1], "a list of names and addresses")
    return frozenset(document.text(one, "a name or an address") for one in items)


def _version(document: Document, given: Fields, name: str) -> ssl.TLSVersion | None:
    if name not in given:
        return None
    node = given[name][1]
    text = document.text(node, "a version")
    if text not in _VERSIONS:
        document.fail(node, f"{text!r} is none of {' and '.join(_VERSIONS)}")
    return _VERSIONS[text]


def _users(document: Document, node: yaml.Node) -> dict[str, bytes]:
    users = {}
    for name, (key, value) in document.fields(node, "a mapping of users to hashes").items():
        hashed = document.text(value, "a hash by bcrypt")
        if not name or ":" in name:
            document.fail(key, "a user's name is not empty, and has no colon")
        if not _BCRYPT.fullmatch(hashed):  # not shown: it may be the password itself
            document.fail(
                value, f"this is no hash by bcrypt: write what `htpasswd -nBC 10 {name}` answers behind the colon"
            )
        users[name] = hashed.encode()
    return users


def _require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadRequest(f"cannot be read: {error.strerror}", file=path) from None


def _no_password() -> str:
    """Give none, where OpenSSL would ask for one on the terminal."""
    return ""
