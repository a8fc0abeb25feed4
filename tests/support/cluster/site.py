"""Server of a deployment, as the services of the Compose file see it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.programs import Programs
from tests.support.cluster.compose import ROOT, load, passwords
from tests.support.servers.databases import OwnServer

__all__ = ["COMPOSE", "Site"]

COMPOSE = load(passwords())


@dataclass
class Site:
    """Server in the state of the service ``database``: all users except the superuser need a password."""

    server: OwnServer
    folder: Path

    def administer(self, given: Mapping[str, str] | None = None) -> None:
        """Run the service ``roles``, with these passwords."""
        values = given or passwords()
        secrets = self.folder / "secrets"
        secrets.mkdir(exist_ok=True)
        for name, secret in COMPOSE["secrets"].items():
            (secrets / name).write_text(values[secret["environment"]])
        script_file = self.folder / "passwords.sql"
        script_file.write_text((ROOT / "deploy" / "passwords.sql").read_text().replace("/run/secrets", str(secrets)))
        [script] = COMPOSE["services"]["roles"]["command"]
        assert "psql -q -h database -U postgres -d bench -f /sql/roles.sql -f /sql/passwords.sql" in script
        psql, roles = Programs().folder / "psql", ROOT / "sql" / "roles.sql"
        words = [str(word) for word in (psql, "-q", "-d", self.admin, "-f", roles, "-f", script_file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    @property
    def admin(self) -> str:
        return conninfo.make_conninfo(self.server.dsn, dbname="bench")

    def dsn(self, config: str) -> str:
        """Return the content of a service's file, with the host of this server."""
        named = conninfo.conninfo_to_dict(COMPOSE["configs"][config]["content"])
        where = conninfo.conninfo_to_dict(self.server.dsn)
        return conninfo.make_conninfo("", **{**named, "host": where["host"], "port": where.get("port", 5432)})

    def database(self, config: str) -> Database:
        return Database(Settings(home=self.folder / config, dsn=self.dsn(config)))

    def reader(self) -> psycopg.Connection:
        return psycopg.connect(self.dsn("reader"), autocommit=True)
