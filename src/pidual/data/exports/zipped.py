"""JSON files within a .zip, read one by one; nothing is unpacked to disk."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from ...errors import DataError
from ...errors.messages import first_line

LARGEST = 4 << 30  # bytes that all files together may have
_ZSTD = 93  # which Python's zipfile reads from 3.14 on


def json_members(path: str, folder: str) -> Iterator[Any]:
    """Yield what each JSON file in a folder of a .zip holds; of several of one name, the last."""
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            members = {each.filename: each for each in archive.infolist() if each.filename.startswith(folder)}
            if sum(each.file_size for each in members.values()) > LARGEST:
                raise DataError(f"{path} is larger than {LARGEST >> 30} GB when unpacked; log fewer samples at once.")
            for name, member in members.items():
                if name.endswith(".json"):
                    yield json.loads(_content(archive, member, stream))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); write it again.") from None


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: IO[bytes]) -> bytes:
    if member.compress_type != _ZSTD:
        return archive.read(member)
    stream.seek(member.header_offset + 26)  # the lengths of the name and of a field that stand before what is packed
    stream.seek(sum(struct.unpack("<HH", stream.read(4))), 1)
    packed = pa.py_buffer(stream.read(member.compress_size))
    content: bytes = pa.input_stream(packed, compression="zstd").read(member.file_size)
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile("a file in it is damaged")
    return content
