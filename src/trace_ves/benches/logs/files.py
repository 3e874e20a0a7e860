"""The archives that other tools write their logs to."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

MOST_MEMBER_BYTES: Final = 256 * 1024 * 1024
ZSTANDARD: Final = 93  # The number that the zip format gives this compression; Python reads it from version 3.14 on


def open_zip(path: Path) -> zipfile.ZipFile:
    """The archive in this file; an `InputError` if it is not one."""
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (zipfile.BadZipFile, ValueError) as error:
        raise InputError(f"{path}: not a zip file: {error}.") from None


def refuse_large(path: Path, most_bytes: int) -> None:
    """Refuse an archive whose members would together unpack to more than this."""
    with open_zip(path) as archive:
        total = sum(member.file_size for member in archive.infolist())
    if total > most_bytes:
        raise InputError(f"{path}: it would unpack to {total} bytes; more than {most_bytes} are not read.")


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The content of one member, never more than `MOST_MEMBER_BYTES`."""
    where = f"{archive.filename}, {member.filename}"
    if member.file_size > MOST_MEMBER_BYTES:
        raise InputError(f"{where}: it would unpack to {member.file_size} bytes; at most {MOST_MEMBER_BYTES} are read.")
    try:
        if member.compress_type != ZSTANDARD:
            return archive.read(member)
        return _decompress(_raw(archive, member), member.file_size, where)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise InputError(f"{where}: cannot be unpacked: {error}.") from None


def _raw(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The compressed bytes of a member: they follow its local header, whose last two fields say how long it is."""
    file = archive.fp
    if file is None:
        raise ValueError("the archive is closed")
    file.seek(member.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise ValueError("no member begins where the archive says")
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    file.seek(name_bytes + extra_bytes, 1)
    return file.read(member.compress_size)


def _decompress(raw: bytes, size: int, where: str) -> bytes:
    try:
        import zstandard  # an optional part
    except ImportError:
        raise MissingExtraError(f"{where}: reading logs with Zstandard compression", "logs") from None
    content = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
            while len(content) <= size and (piece := stream.read(size + 1 - len(content))):
                content += piece
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if len(content) != size:
        raise ValueError("its size is not what the archive says")
    return bytes(content)
