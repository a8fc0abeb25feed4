"""Locks of one process at a time: on a name of the host, and on a file."""

from __future__ import annotations

import os
from pathlib import Path

from hypergauge.core.files.file_lock import FileLock
from hypergauge.core.files.host_lock import HostLock


def test_a_lock_on_a_name_ends_with_its_process() -> None:
    name = f"test/{os.getpid()}"
    with HostLock(name) as lock:
        assert lock.take()
        assert not HostLock(name).take()
        if (child := os.fork()) == 0:
            os._exit(int(HostLock(name).take()))
        assert os.waitpid(child, 0)[1] == 0
    with HostLock(name) as lock:
        assert lock.take()


def test_a_lock_on_a_file_is_inherited_and_ends_with_its_last_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    read, write = os.pipe()
    with FileLock(path) as lock:
        assert not FileLock(path).take(0)
        if (child := os.fork()) == 0:
            os.close(write)
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
    lock.release()
    assert not FileLock(path).take(0)
    os.close(write)
    os.waitpid(child, 0)
    os.close(read)
    again = FileLock(path)
    assert again.take(0)
    assert again.take(0)
    again.release()
