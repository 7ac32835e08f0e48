"""Writes files to a cache folder, lists and removes them."""
import marshal
import os
import stat
import time
from functools import cache
from typing import TYPE_CHECKING

from pylite._core.run.memory import Pages, checksum
from pylite.runtime.cache_folder import MAGIC, RECORD, SUMMED, Folder, data_start
from pylite.runtime.model_cache import has_aged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    PlanCache = Any     # its module imports this one

LIMIT = 1 << 30         # bytes of a folder; the least recently used files are removed to stay below it
ABANDONED = 3600        # seconds after which a temporary file counts as abandoned


def default_folder() -> str:
    """The folder for the plans of commands and tasks; "" for none.

    PYLITE_CACHE_DIR if it is set, else `pylite` in the user's cache folder (XDG_CACHE_HOME, ~/.cache).
    """
    named = os.environ.get("PYLITE_CACHE_DIR")
    if named is not None:
        return named
    above = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(above):        # the specification says to ignore relative paths and ""
        above = os.path.expanduser("~/.cache")
    return os.path.join(above, "pylite") if os.path.isabs(above) else ""


class Store(Folder):
    """A writable Folder.  create: create it if necessary, but not in another user's folder, as could happen with
    sudo."""

    def __init__(self, path: "str | os.PathLike[str]", create: bool = False) -> None:
        if create and not os.path.exists(path):
            above = os.path.dirname(os.path.abspath(path))
            while not os.path.exists(above):
                above = os.path.dirname(above)
            if os.stat(above).st_uid not in (0, os.geteuid()):
                raise PermissionError(f"the cache folder {path!s} was not made: {above} belongs to another user")
            os.makedirs(path, 0o700, exist_ok=True)
        super().__init__(path)

    def write(self, name: str, record: "Any", data: "Sequence[Any]" = ()) -> None:
        """Write a file with this record and data, objects of bytes.  Raises OSError on failure.

        Other processes see either the complete file or none.
        """
        packed = marshal.dumps(record)
        start = data_start(len(packed))
        size = start + sum([len(item) for item in data])
        content = (MAGIC, bytes(8), size.to_bytes(8, "little"), len(packed).to_bytes(8, "little"), packed,
                  bytes(start - RECORD - len(packed)), *data)
        temporary = f"{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                       dir_fd=self.descriptor)
        try:
            try:
                for item in content:
                    left = memoryview(item)
                    while len(left):
                        left = left[os.write(file, left):]
                summed = checksum(memoryview(Pages(size, file))[SUMMED:])
                os.pwrite(file, summed.to_bytes(8, "little"), len(MAGIC))
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.remove(temporary)
            raise

    def remove(self, name: str) -> bool:
        """Remove a file; returns False on failure."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except OSError:
            return False
        return True

    def files(self) -> "list[tuple[float, int, str]]":
        """(time of last use, bytes, name) of each regular file, the least recently used first."""
        result = []
        for name in os.listdir(self.descriptor):
            try:
                status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            except OSError:     # another process has removed it
                continue
            if stat.S_ISREG(status.st_mode):
                result.append((status.st_mtime, status.st_size, name))
        return sorted(result)

    def make_room(self, nbytes: int, limit: int = LIMIT) -> None:
        """Remove the least recently used files until `nbytes` more, at most `limit`, fit into `limit`."""
        files = self.files()
        total = nbytes + sum([size for _, size, _ in files])
        abandoned = time.time() - ABANDONED
        for used, size, name in files:
            if total > limit or (name.endswith(".tmp") and used < abandoned):
                self.remove(name)
                total -= size


@cache
def last_edit(folder: str) -> float:
    """The time of the last edit of any Python module below a folder; computed once per process, because it is slow."""
    return max(os.stat(os.path.join(path, name)).st_mtime
               for path, _, names in os.walk(folder) for name in names if name.endswith(".py"))


def remember(plans: "PlanCache", folder: Store) -> None:
    """Store the digest of a model's file, unless another change could leave the file's times as they are."""
    if plans.identity is not None and has_aged(os.stat(plans.source)) and plans.unchanged():
        folder.write(plans.identity, (plans.identity, plans.digest))


def digest_of(contents: "Any") -> bytes:
    """A 16-byte digest of a model's contents."""
    try:
        from _blake2 import blake2b  # hashlib, its documented place, loads all of OpenSSL
    except ImportError:
        from hashlib import blake2b
    return blake2b(contents, digest_size=16).digest()
