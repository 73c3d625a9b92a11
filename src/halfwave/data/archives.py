"""Zip archives that are read in place (`.npz`, `.pt`): directory checked against the file, content by CRC-32."""

from __future__ import annotations

import zipfile
from pathlib import Path

from halfwave.data.claims import check_packed, check_stored
from halfwave.errors import InputError

LARGEST_CHECKED = 4 * 2**30
"""Bytes of an entry whose CRC is checked: it covers the whole entry, which would have to be read for one sample."""
_LOCAL_HEADER = 30  # bytes of a zip entry's own header before its name and extra field
_BLOCK = 1 << 20


def require_honest(info: zipfile.ZipInfo, path: Path, where: str) -> None:
    """InputError where an entry claims more than the file holds, or than packed fields unpack to."""
    check_stored(where, info.header_offset + info.compress_size, path.stat().st_size)
    if info.compress_type == zipfile.ZIP_STORED:
        check_stored(where, info.file_size, info.compress_size)
    else:
        check_packed(where, info.file_size, info.compress_size)


def check_crc(path: Path, name: str) -> None:
    """Read an entry through, a block at a time; InputError where its CRC-32 is not that of its content."""
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(name).file_size > LARGEST_CHECKED:
            return
        try:
            with archive.open(name) as member:
                while member.read(_BLOCK):
                    pass
        except zipfile.BadZipFile as error:
            raise InputError(f"{path}: '{name}' is damaged, its checksum does not match its content") from error


def data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored entry's bytes begin: its local header may be longer than the directory says."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + _LOCAL_HEADER - 4)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    return info.header_offset + _LOCAL_HEADER + name + extra
