"""The command ``doctor --tls``: certificates for a site's hosts, or a check of configured ones."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import typer
from rich.markup import escape

from hypergauge.cli.common import as_json, console
from hypergauge.core.config.settings import Settings
from hypergauge.core.http.checks import Finding, check
from hypergauge.core.http.host_certificates import Issued, prepare
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.server.transport import transport

__all__ = ["set_up"]

_PLACE = "/etc/bench/tls"


def set_up(settings: Settings, hosts: Sequence[str], *, json: bool) -> None:
    """Make or renew what this host's authority is to make, and check what is configured; see ``bench doctor``."""
    folder = settings.home / "tls"
    here = [socket.gethostname()]
    issued: list[Issued] = []
    if hosts or settings.web_config is None or (folder / "ca.key").exists():
        issued = prepare(folder, [here, *(host.split(",") for host in hosts)])
    found: list[Finding] = []
    if settings.web_config is not None:
        found += check(settings.web_config, here)
    if settings.dsn is not None:
        found.append(("BENCH_DSN", *transport(settings.dsn)))
    if json:
        as_json({"issued": [_plain(one) for one in issued], "findings": [_named(one) for one in found]})
    else:
        _show(issued, found)
    if not all(ok for _, ok, _ in found):
        raise typer.Exit(1)


def _plain(one: Issued) -> dict[str, Any]:
    return {
        "host": one.host or None, "state": one.state, "folder": str(one.folder), "names": one.names,
        "until": one.until.isoformat(),
    }  # fmt: skip


def _named(one: Finding) -> dict[str, Any]:
    what, ok, detail = one
    return {"what": what, "ok": ok, "detail": detail}


def _show(issued: Sequence[Issued], found: Sequence[Finding]) -> None:
    out = console()
    if issued:
        made = tables.table("host", "", "until", "for", "folder")
        for one in issued:
            names = ", ".join(one.names) or "all of these"
            made.add_row(
                escape(one.host or "authority"),
                one.state,
                f"{one.until:%Y-%m-%d}",
                escape(names),
                escape(str(one.folder)),
            )
        out.print(made)
    if new := [one for one in issued if one.host and one.state != "kept"]:
        out.print(escape(_what_to_do(new)), soft_wrap=True)
    if found:
        made = tables.table("what", "", "detail")
        for what, ok, detail in found:
            made.add_row(escape(what), "[green]ok[/]" if ok else "[yellow]no[/]", escape(detail))
        out.print(made)


def _what_to_do(issued: Sequence[Issued]) -> str:
    copies = "\n".join(f"  {one.folder}/ -> {one.host}:{_PLACE}/" for one in issued)
    return f"""
Copy each folder to its host, such as with rsync -a, and leave ca.key where it is:
{copies}
On each host, in bench.toml or as BENCH_WEB_CONFIG, for `bench exporter run NAME --bind 0.0.0.0 --port PORT`:
  web_config = "{_PLACE}/web.yml"
In the collector's targets file, in each job:
  scheme: https
  tls_config: {{ca_file: {_PLACE}/ca.pem, cert_file: {_PLACE}/cert.pem, key_file: {_PLACE}/key.pem}}
In BENCH_DSN, once the database shows such a certificate (docs/tls.md):
  ?sslmode=verify-full&sslrootcert={_PLACE}/ca.pem
"""
