"""Writer of the generated parts: ``make reference``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from docs.generate.pages import pages, rendered
from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.database import Database


def main() -> None:
    """Bring each page up to date, and print the names of those that changed."""
    with (
        tempfile.TemporaryDirectory() as home,
        Database(Settings(home=Path(home))) as database,
        database.session() as connection,
    ):
        for page in pages():
            text = rendered(page, connection)
            if text != page.read_text(encoding="utf-8"):
                page.write_text(text, encoding="utf-8")
                print(page.relative_to(Path.cwd()))


if __name__ == "__main__":
    main()
