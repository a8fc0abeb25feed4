"""Text file of the user, which an editor may have open. Writes replace the whole file atomically."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.errors import BadRequest, nearest
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["locked", "nearest_file", "read_text", "require_writable", "rewrite"]

_ANY_READ = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def nearest_file(word: str, folder: Path) -> str:
    """Return `` (did you mean 'x'?)`` for the file in `folder` with the name nearest to `word`, else an empty text."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        if near := nearest(word, [entry.name for entry in entries if entry.is_file()]):
            return f" (did you mean {near!r}?)"
    return ""


def read_text(path: Path) -> str:
    """Read a UTF-8 file; keep line ends and byte order mark.

    Raises
    ------
    BadRequest
        The file does not exist, is not a regular file, cannot be read, or is not text (with line and column).
    """
    if not path.exists():
        raise BadRequest(f"the file does not exist{nearest_file(path.name, path.parent)}", file=path)
    if not path.is_file():
        raise BadRequest("this is a folder, not a file" if path.is_dir() else "this is not a regular file", file=path)
    # `os.access` allows root everything, so the mode bits are checked as well.
    if not os.access(path, os.R_OK) or not path.stat().st_mode & _ANY_READ:
        raise BadRequest("the file may not be read", file=path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRequest(f"the file cannot be read: {error.strerror}", file=path) from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        good, what = data[: error.start].decode(), f"byte 0x{data[error.start]:02x} is not UTF-8"
    else:
        if "\0" not in text:
            return text
        good, what = text[: text.index("\0")], "there is a NUL byte"
    line = good.count("\n") + 1
    column = len(good) - good.rfind("\n")
    raise BadRequest(f"this is not a text file in UTF-8: {what}", file=path, line=line, column=column)


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be rewritten, or whose mode has no write bit.

    Raises
    ------
    BadRequest
        The file, or the folder in which its new version is created, is not writable.
    """
    if not os.access(path, os.W_OK) or not path.stat().st_mode & _ANY_WRITE:
        raise BadRequest("the file is not writable, but statuses are written back to it", file=path)
    if not os.access(path.resolve().parent, os.W_OK):
        raise BadRequest("its folder is not writable, but the new version of the file is created there", file=path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` against other processes that use this function; create no lock file.

    The lock is on the file itself. A rewrite replaces the file, so a process that waited may hold the lock of the old
    file and retries. File systems without locks have no protection, but each write is still atomic.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise BadRequest(f"the file cannot be opened for writing: {error.strerror}", file=path) from error
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(path, descriptor):
                yield
                return
        finally:
            os.close(descriptor)


def rewrite(path: Path, text: str) -> None:
    """Replace the content of `path`, or of its link target, and keep mode and owner."""
    target = path.resolve()
    before = target.stat()
    mode = stat.S_IMODE(before.st_mode)
    write_atomically(target, text, mode)
    after = target.stat()
    if (after.st_uid, after.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(OSError):  # only root may change the owner
            os.chown(target, before.st_uid, before.st_gid)
    if stat.S_IMODE(target.stat().st_mode) != mode:  # the umask or the change of owner cleared bits
        target.chmod(mode)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
