"""Target of a move, as the user names it, and the settings that select it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import conninfo

from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest

__all__ = ["EMBEDDED", "next_steps", "target_settings"]

EMBEDDED = "embedded"


def target_settings(settings: Settings, target: str) -> Settings:
    """Return the settings with the database `target`: a connection string, a file with it, or ``embedded``.

    Raises
    ------
    BadRequest
        It is neither of them, or the embedded database is the source.
    """
    if target == EMBEDDED:
        if settings.dsn is None:
            raise BadRequest("the embedded database is the source, because BENCH_DSN is not set")
        return replace(settings, dsn=None, read_dsn=None)
    if "=" not in target and "://" not in target:
        try:
            target = Path(target).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadRequest(
                f"{target} is neither a connection string, such as postgresql://host/bench, nor 'embedded', nor a readable "
                f"file ({error.strerror})"
            ) from None
    try:
        conninfo.conninfo_to_dict(target)
    except psycopg.Error:  # its message quotes the text, possibly the password
        raise BadRequest("the connection string of the target cannot be parsed") from None
    return replace(settings, dsn=target, read_dsn=None)


def next_steps(settings: Settings, target: Settings) -> Iterator[str]:
    """Yield what the user does after a move from `settings` to `target`."""
    file = config_file() or "bench.toml"
    if target.dsn is None:
        yield f"to use it: unset BENCH_DSN, and remove `dsn` from {file}"
    else:
        yield f"to use it: set BENCH_DSN, or `dsn` in {file}, to its connection string, on all hosts"
    source = "the server's database" if settings.dsn else f"the embedded database in {settings.database_dir}"
    yield f"{source} is unchanged; remove it once you no longer need it"
    yield f"artifacts and output of runs are files, and stay in {settings.home}"
    if settings.tracking_uri is not None:
        yield "MLflow's runs are not in this database (MLFLOW_TRACKING_URI is set), and stay where they are"
