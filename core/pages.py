"""Pages of the documentation that errors and findings name, where a user has to do something outside the command."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BASE", "Page"]

# Address of the pages: their folder in the repository.
BASE = "docs/"


class Page(StrEnum):
    """Page, with an anchor if only a section helps; a test checks that both exist."""

    BACKGROUND_JOBS = "explanation/database.md#background-jobs"
    DATA_FOLDERS = "explanation/database.md#data-folders"
    DATABASE_SETTINGS = "explanation/database.md#settings"
    GRAFANA = "how-to/grafana.md"
    MIG = "how-to/mig.md"
    MPS = "how-to/mps.md"
    NEW_POSTGRESQL = "how-to/upgrade.md#a-new-postgresql"
    OWN_DATABASE = "explanation/database.md#a-database-of-your-own"
    PROFILERS = "reference/profilers.md"
    TARGETS = "how-to/targets.md"
    TLS = "how-to/tls.md"

    @property
    def address(self) -> str:
        """Address for users."""
        return BASE + self

    def after(self, text: str) -> str:
        """Return `text` with the address, unless it has it already."""
        return text if self.address in text else f"{text} (see {self.address})"
