"""The embedded server: any home, the first user starts it, the last one stops it."""

from __future__ import annotations

import json
import os
import platform
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.system.processes import ProcessStat, read_stat
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.lease import network_filesystem
from hypergauge.sql.server.postmaster import postmaster
from hypergauge.sql.server.programs import MAJOR, Programs
from hypergauge.sql.server.restarts import Restarts
from tests.conftest import Command, NewFolder
from tests.support.home import listen_to_interrupts
from tests.support.waiting import wait_for


@pytest.fixture
def folder(new_folder: NewFolder) -> Path:
    return new_folder() / "postgres"


def serves(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        return connection.execute("select 1").fetchone() == (1,)


def test_it_works_however_long_its_path_is(new_folder: NewFolder) -> None:
    home = new_folder()
    folder = home / ("x" * (200 - len(str(home)) - 1))
    assert len(str(folder)) == 200
    server = EmbeddedServer(folder)
    assert serves(server.acquire())
    assert len(os.fsencode(server.socket_dir / ".s.PGSQL.5432")) < 108
    assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
    server.release()
    assert not server.running


@pytest.mark.skipif(os.getuid() != 0, reason="only root's programs run as another user")
def test_programs_in_a_private_folder_of_root(new_folder: NewFolder) -> None:
    private, data = new_folder(), new_folder() / "data"
    private.chmod(0o700)
    data.mkdir()
    (private / "bin").symlink_to(Programs().folder)
    Programs(folder=private / "bin").make(data, configuration="")
    assert (data / "PG_VERSION").read_text().strip() == str(MAJOR)


def test_the_last_one_to_leave_stops_it(folder: Path) -> None:
    first, second = EmbeddedServer(folder), EmbeddedServer(folder)
    first.acquire()
    second.acquire()
    first.release()
    first.release()
    assert second.running
    second.release()
    assert not second.running


def test_a_holder_that_was_killed_counts_no_more(folder: Path) -> None:
    script = (
        "import os, pathlib, sys; from hypergauge.sql.server.embedded import EmbeddedServer\n"
        "EmbeddedServer(pathlib.Path(sys.argv[1])).acquire(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    server = EmbeddedServer(folder)
    assert server.running
    server.acquire()
    server.release()
    assert not server.running


def postmaster_of(server: EmbeddedServer) -> ProcessStat:
    found = postmaster(server.data)
    assert found is not None
    return found


def kill(server: EmbeddedServer) -> None:
    """Kill the server as the kernel does when memory is short."""
    os.kill(postmaster_of(server).pid, signal.SIGKILL)
    wait_for(lambda: postmaster(server.data) is None, "the end of the server")


def test_a_killed_server_is_started_again_once_by_those_that_hold_it(folder: Path) -> None:
    first, second = EmbeddedServer(folder), EmbeddedServer(folder)
    first.acquire()
    second.acquire()
    kill(first)
    assert first.restore()
    started = postmaster_of(first)
    assert second.restore()
    assert postmaster_of(second).pid == started.pid
    assert [restart.reason for restart in Restarts(folder).read()] == ["its process had ended"]
    first.release()
    assert not first.restore()
    second.release()
    assert Restarts(folder).read() == []


def test_a_database_connects_to_a_server_that_was_killed(new_folder: NewFolder) -> None:
    with Database(Settings(home=new_folder())) as database:
        assert database.embedded
        kill(EmbeddedServer(database.settings.database_dir))
        with database.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_a_supervisor_of_a_run_starts_no_server(folder: Path) -> None:
    server, supervisor = EmbeddedServer(folder), EmbeddedServer(folder, starts=False)
    supervisor.acquire()
    assert postmaster(server.data) is None
    server.acquire()
    kill(server)
    assert not supervisor.restore()
    assert postmaster(server.data) is None
    server.restore()
    server.release()
    assert postmaster(server.data) is not None, "it is held"
    supervisor.release()
    assert postmaster(server.data) is None


# Like a supervisor it adopts the server, and it never waits for its children.
ADOPTING = """
import ctypes, os, pathlib, signal, sys
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.postmaster import postmaster
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
server = EmbeddedServer(pathlib.Path(sys.argv[1]))
server.acquire()
pid = postmaster(server.data).pid
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(pid, flush=True)
sys.stdin.read()
"""


def test_a_zombie_is_no_server(folder: Path) -> None:
    command = [sys.executable, "-c", ADOPTING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        zombie = read_stat(pid)
        assert zombie is not None
        assert zombie.zombie
        assert int((folder / "data" / "postmaster.pid").read_text().split()[0]) == pid
        server = EmbeddedServer(folder)
        assert not server.running
        assert serves(server.acquire())
        server.release()
        process.communicate()


def test_a_process_that_reuses_the_pid_is_no_server(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    kill(server)
    file = folder / "data" / "postmaster.pid"
    file.write_text(file.read_text().replace(file.read_text().split()[0], str(os.getpid()), 1))
    server.restore()
    assert serves(server.dsn)
    server.release()


def test_a_suspended_server_continues(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    process = postmaster_of(server)
    os.kill(process.pid, signal.SIGSTOP)
    assert serves(EmbeddedServer(folder).acquire())
    assert postmaster_of(server).pid == process.pid
    server.release()


def test_a_server_without_a_socket_is_replaced(folder: Path) -> None:
    server = EmbeddedServer(folder, patience=0)
    server.acquire()
    before = postmaster_of(server)
    (server.socket_dir / ".s.PGSQL.5432").unlink()  # by a program that cleans /tmp
    server.restore()
    assert postmaster_of(server).pid != before.pid
    assert [restart.reason for restart in Restarts(folder).read()] == ["it did not answer"]
    assert serves(server.dsn)
    server.release()


def test_data_in_use_on_another_host_are_refused_also_when_that_has_crashed(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    lease = folder / "lease.json"
    mine = json.loads(lease.read_text())
    lease.write_text(json.dumps({**mine, "host": "node7", "boot_id": "another"}))
    refusal = r"is in use on host node7: stop it there with `bench down`; if node7 has crashed .* remove .*lease\.json"
    with pytest.raises(DatabaseUnavailable, match=refusal):
        EmbeddedServer(folder).acquire()
    lease.write_text(json.dumps(mine))
    server.release()
    # The other host has crashed: its lease and its pid file are left, and the pid is another process's here.
    lease.write_text(json.dumps({**mine, "host": "node7"}))
    (folder / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{folder}/data\n")
    with pytest.raises(DatabaseUnavailable, match=refusal):
        EmbeddedServer(folder).acquire()
    lease.unlink()
    assert serves(server.acquire())
    server.release()


def test_a_clean_stop_gives_the_lease_back(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    assert json.loads((folder / "lease.json").read_text())["host"] == platform.node()
    server.release()
    assert not (folder / "lease.json").exists()


def test_the_same_host_continues_after_a_restart(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    server.release()
    lease = {"host": platform.node(), "boot_id": "that of the boot before"}
    (folder / "lease.json").write_text(json.dumps(lease))
    (folder / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{folder}/data\n")  # a pid that is another's now
    assert serves(server.acquire())
    server.release()


def test_a_removed_lease_does_not_end_the_server(folder: Path) -> None:
    first, second = EmbeddedServer(folder), EmbeddedServer(folder)
    with psycopg.connect(first.acquire()) as connection:
        (folder / "lease.json").unlink()
        second.acquire()
        assert (folder / "data" / "postmaster.pid").exists()
        assert connection.execute("select 1").fetchone() == (1,)
    second.release()
    first.release()


def test_a_lease_that_cannot_be_read_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    for content in ("", "{", "[]", "{}"):
        (folder / "lease.json").write_text(content)
        with pytest.raises(DatabaseUnavailable, match="remove it"):
            EmbeddedServer(folder).acquire()


@pytest.mark.parametrize(("major", "remedy"), [(16, "`bench db upgrade` upgrades them"), (99, "use the release that")])
def test_data_of_another_major_version_are_refused(folder: Path, major: int, remedy: str) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text(f"{major}\n")
    with pytest.raises(DatabaseUnavailable, match=rf"made by PostgreSQL {major}, this release has 18: {remedy}"):
        EmbeddedServer(folder).acquire()


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:50 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
41 40 8:1 / /home/me/local\\040disk rw - xfs /dev/sdb1 rw
42 27 0:51 / /scratch rw - lustre mds@tcp:/scratch rw
43 27 0:52 / /mnt rw - nfs server:/a rw
44 27 8:2 / /mnt rw - ext4 /dev/sdc rw
"""


def test_network_and_local_file_systems_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    kinds = {
        "/home/me/bench/postgres": "nfs4",
        "/home/me/local disk/postgres": None,
        "/homework/postgres": None,
        "/scratch/postgres": "lustre",
        "/mnt/postgres": None,  # what was mounted last covers the rest
        "/var/lib/postgres": None,
    }
    assert {folder: network_filesystem(Path(folder), tmp_path) for folder in kinds} == kinds


def test_a_network_file_system_is_warned_about_once(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("27 1 0:50 / / rw - nfs4 server:/ rw\n")
    first, second = EmbeddedServer(folder, root=tmp_path), EmbeddedServer(folder, root=tmp_path)
    first.acquire()
    second.acquire()
    second.release()
    first.release()
    [warning] = [record.getMessage() for record in caplog.records]
    assert "network file system (nfs4)" in warning
    assert "set BENCH_HOME to a local folder" in warning


@pytest.mark.parametrize("after", [0.1, 0.3, 0.6])
def test_an_interrupt_while_it_is_made_leaves_nothing_half(folder: Path, after: float) -> None:
    script = "import pathlib, sys; from hypergauge.sql.server.embedded import EmbeddedServer\nEmbeddedServer(pathlib.Path(sys.argv[1])).acquire()"
    command = [sys.executable, "-c", script, str(folder)]
    # The background of a shell has interrupts ignored; here they are to be heard.
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=listen_to_interrupts) as process:
        time.sleep(after)
        process.send_signal(signal.SIGINT)
    server = EmbeddedServer(folder)
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    server.release()


def test_it_listens_nowhere_whatever_its_file_sets(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    server.release()
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write("listen_addresses = '127.0.0.1'\n")
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    server.release()


def test_login_cron_and_batch_find_the_same_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = EmbeddedServer(folder)
    before = first.dsn
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert EmbeddedServer(folder).dsn == before


def test_the_url_of_a_missing_server_is_an_error(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_DSN", raising=False)
    monkeypatch.setenv("BENCH_HOME", str(folder))
    server = EmbeddedServer(Settings.load().database_dir)
    status, out, error = command("db", "url")
    assert (status, out.strip()) == (1, server.dsn)
    assert "the embedded database is not running; `bench up` starts it" in " ".join(error.split())
    assert not server.data.exists(), "the query starts nothing"
    server.acquire()
    try:
        assert command("db", "url") == (0, f"{server.dsn}\n", "")
    finally:
        server.release()
    monkeypatch.setenv("BENCH_DSN", "postgresql://me@127.0.0.1:1/x")
    assert command("db", "url") == (0, "postgresql://me@127.0.0.1:1/x\n", "")
