"""Exposure of the local stack: private files, and ports on loopback alone."""

from __future__ import annotations

import contextlib
import socket
import stat
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.embedded import EmbeddedServer
from tests.support.home import Home

pytestmark = pytest.mark.slow

# As most systems have it.
OPEN = ["sh", "-c", 'umask 022; exec "$@"', "sh"]
SCRIPT = """
import os
from pathlib import Path

import mlflow

Path("mine.txt").write_text("the run's own")
mlflow.log_artifact("mine.txt", "folder")
print("umask", oct(os.umask(0o022)))
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Home]:
    """A stack that was started under an open umask, with a run that has left something of everything."""
    with tempfile.TemporaryDirectory(prefix="bench-open-") as folder:
        home = Home(Path(folder) / "home", Path(folder) / "work", through=OPEN)
        with home.stack():
            (home.folder / "script.py").write_text(SCRIPT)
            sheet = home.sheet("open", "Experiment,Workload,File", ["1,1,script.py"])
            home.bench("schedule", sheet.path)
            home.bench("export", "1", "-o", "one.capsule")
            [run] = home.runs(1)
            home.delivered(run["run_id"])
            yield home


def processes(home: Home) -> list[psutil.Process]:
    """Return the processes that belong to a home, and the database's, whose command line does not name it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("BENCH_HOME") == str(home.path) or str(home.path) in " ".join(process.cmdline()):
                found += [process, *process.children(recursive=True)]
    return found


def test_every_port_is_one_of_the_loopback_interface(stack: Home) -> None:
    listening = {}
    for process in processes(stack):
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN or (one.type is socket.SOCK_DGRAM and not one.raddr):
                    listening[one.laddr] = process.cmdline()
    services = [
        one["url"] for one in stack.json("status")["services"].values() if one.get("url", "").startswith("http")
    ]
    assert {urlsplit(url).port for url in services} <= {address.port for address in listening}
    assert len(services) >= 4
    assert {at: words for at, words in listening.items() if not ip_address(at.ip).is_loopback} == {}


def test_nothing_below_its_folder_is_for_others(stack: Home) -> None:
    server = EmbeddedServer(Settings(home=stack.path).database_dir)
    seen, open_to_others = 0, []
    for top in (stack.path, server.socket_dir):
        assert top.is_dir()
        for path in [top, *top.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):  # it keeps running
                mode = path.lstat().st_mode
                seen += 1
                # A link has no mode, and to a socket only those get whom its folder lets in.
                if not stat.S_ISLNK(mode) and not stat.S_ISSOCK(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                    open_to_others.append(f"{stat.filemode(mode)} {path.relative_to(top.parent)}")
    assert seen > 500
    assert list((stack.path / "artifacts").rglob("mine.txt"))
    assert not open_to_others, "\n".join(open_to_others)


def test_files_of_a_run_have_the_users_umask(stack: Home) -> None:
    assert "umask 0o22" in stack.bench("logs", "1/1/1")
    assert stat.S_IMODE((stack.folder / "mine.txt").stat().st_mode) == 0o644
    assert stat.S_IMODE((stack.folder / "one.capsule").stat().st_mode) == 0o600
