"""Reads a cache folder: files with results that later processes need not compute again.

These files determine which code runs, so they are trusted only under the rules that OpenSSH has for its keys: files and
folder belong to this user or root, and others can neither write to them nor replace a parent folder.  A file has a
header (MAGIC, a checksum of the rest, the number of bytes of the file and of the record), a marshalled record and, at a
multiple of ALIGNMENT, the record's data.  The checksum detects a damaged file before anything else is read.
cache_files.Store writes these files.
"""
import marshal
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pylite._core.run.memory import Pages, checksum

if TYPE_CHECKING:
    from typing import Any, Self

MAGIC = b"pylite cache 02\n"
ALIGNMENT = 64          # bytes of a cache line, the alignment of packed weights
SUMMED, LENGTH, RECORD = 24, 32, 40      # offsets of the checksummed bytes, the record's length and the record
HOUR = 3600
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_DEPTH = 256        # levels of parent folders that are checked


class Folder:
    """An open cache folder, for a `with` statement.

    Raises OSError if it cannot be opened, PermissionError if it is not trusted.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check_folder(os.fsdecode(path), self.descriptor)
        except BaseException:
            os.close(self.descriptor)
            raise

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def read(self, name: str, use: bool = True) -> "tuple[Any, memoryview, Pages] | None":
        """(record, data, pages) of a file; None if it is missing, damaged or not trusted.

        use: update the file's time of last use.
        """
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self.descriptor)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or distrust(status) or status.st_size < RECORD:
                return None
            pages = Pages(status.st_size, file)
            view = memoryview(pages)
            if (view[:16] != MAGIC or int.from_bytes(view[SUMMED:LENGTH], "little") != len(view)
                    or int.from_bytes(view[16:SUMMED], "little") != checksum(view[SUMMED:]) or pages.lost):
                return None
            if use and abs(time.time() - status.st_mtime) > HOUR:
                with suppress(OSError):         # the disk is read-only, or the file belongs to root
                    os.utime(file)              # the least recently used files are removed first
            length = int.from_bytes(view[LENGTH:RECORD], "little")
            return marshal.loads(view[RECORD:RECORD + length]), view[data_start(length):], pages
        except (OSError, ValueError, EOFError, TypeError):
            return None
        finally:
            os.close(file)


def data_start(length: int) -> int:
    """The position of the data after a record of `length` bytes."""
    return -(-(RECORD + length) // ALIGNMENT) * ALIGNMENT


def distrust(status: os.stat_result) -> "str | None":
    """The reason why a file or folder with this status is not trusted, or None."""
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to the user {status.st_uid}"
    if status.st_mode & _OTHERS:
        return f"others may write it (its mode is {stat.S_IMODE(status.st_mode):o})"
    return None


def _check_folder(path: str, descriptor: int) -> None:
    """Raise PermissionError if another user can change the folder, or replace it or a folder above."""
    status, above = os.fstat(descriptor), "."
    why = distrust(status)
    for _ in range(_MAX_DEPTH):
        if why:
            where = "" if above == "." else f"{above}: "
            raise PermissionError(f"the cache folder {path} is not used: {where}{why}")
        known, above = status, ".." if above == "." else above + "/.."
        status = os.stat(above, dir_fd=descriptor)
        if (status.st_dev, status.st_ino) == (known.st_dev, known.st_ino):
            return
        why = None if status.st_mode & stat.S_ISVTX else distrust(status)      # sticky: only owners can rename files
    raise PermissionError(f"the cache folder {path} is not used: it is {_MAX_DEPTH} folders deep")
