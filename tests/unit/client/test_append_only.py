"""Files of the client in a process that closes descriptors it did not open."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.client.append_only import AppendOnlyFile
from hypergauge.client.tensors import TensorFile
from hypergauge.client.track import Track


def _number(path: Path) -> int:
    """Return the descriptor of a file in this process."""
    return next(int(link.name) for link in Path("/proc/self/fd").iterdir() if os.path.realpath(link) == str(path))


def _spans(path: Path) -> Callable[[], object]:
    track = Track(str(path))
    return lambda: track.step(1).__enter__().__exit__(None, None, None)


def _tensors(path: Path) -> Callable[[], object]:
    file = TensorFile(str(path))
    return lambda: file.problem("none")


@pytest.mark.parametrize("writer", [_spans, _tensors])
def test_a_number_that_the_script_has_by_now_is_left_to_it(
    writer: Callable[[Path], Callable[[], object]], tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    write = writer(path)
    write()
    number = _number(path)
    with checkpoint.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), number)  # as if the script had closed all numbers and then opened its file
    os.write(number, b"weights")
    write()
    os.write(number, b" and biases")
    os.close(number)
    assert checkpoint.read_bytes() == b"weights and biases"
    os.close(_number(path))  # without a file in its place
    write()
    assert len(path.read_text().splitlines()) == 3
    os.close(_number(path))


def test_a_daemon_closes_low_numbers_and_leaves_the_file_open(tmp_path: Path) -> None:
    file = AppendOnlyFile(str(tmp_path / "lines"))
    file.append(b"one\n")
    number = _number(tmp_path / "lines")
    assert number > 256
    assert not os.get_inheritable(number)
    os.close(number)


def test_a_low_limit_of_descriptors_is_kept(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    file = AppendOnlyFile(str(tmp_path / "lines"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        file.append(b"one\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    file.append(b"two\n")
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
    os.close(_number(tmp_path / "lines"))


def test_a_file_that_cannot_be_opened_or_written_is_dropped(tmp_path: Path) -> None:
    AppendOnlyFile(str(tmp_path / "missing" / "lines")).append(b"one\n")
    AppendOnlyFile("/dev/full").append(b"one\n")
    os.close(_number(Path("/dev/full")))
    assert list(tmp_path.iterdir()) == []


def test_the_time_limit_of_a_script_ends_it_within_a_write_too(tmp_path: Path) -> None:
    def expired(*_: object) -> None:
        raise TimeoutError

    def append() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        for _ in range(100_000):
            file.append(b"one\n")

    file = AppendOnlyFile(str(tmp_path / "lines"))
    previous = signal.signal(signal.SIGALRM, expired)
    try:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                append()
    finally:
        signal.signal(signal.SIGALRM, previous)
    os.close(_number(tmp_path / "lines"))
