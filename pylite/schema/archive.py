"""Names of the files in the zip archive that may follow a model in the same file."""
import struct

_END = struct.Struct("<4s4H2LH")            # end of the central directory
_ENTRY = struct.Struct("<4s6H3L5H2L")       # an entry of the central directory
_MAX_NAMES = 10_000


def archive_names(contents: memoryview) -> "tuple[str, ...]":
    """Names of the files in the archive at the end of `contents`, or () if there is none."""
    tail = bytes(contents[-(_END.size + 0xFFFF):])
    end_record = tail.rfind(b"PK\5\6")
    if end_record < 0 or end_record + _END.size > len(tail):
        return ()
    end = len(contents) - len(tail) + end_record
    count, size = _END.unpack_from(tail, end_record)[4:6]
    position = end - size
    names: list[str] = []
    while position >= 0 and position + _ENTRY.size <= end and len(names) < min(count, _MAX_NAMES):
        signature, *fields = _ENTRY.unpack_from(contents, position)
        if signature != b"PK\1\2":
            break
        name_size, extra_size, comment_size = fields[9:12]
        position += _ENTRY.size
        names.append(str(contents[position:position + name_size], "utf-8", "backslashreplace"))
        position += name_size + extra_size + comment_size
    return tuple(names)
