"""Numbers of bytes as people write them: 24GiB, 512 MB."""

from __future__ import annotations

import re

from halfwave.errors import InputError

_UNITS = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip
_SHOWN = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def parse_bytes(text: str | int) -> int:
    """``"24GiB"``, ``"1.5 GB"`` or a whole number of bytes; InputError for another unit or a size below one byte."""
    if isinstance(text, int) and not isinstance(text, bool):
        nbytes = text
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
        if not found:
            raise InputError(f"cannot read {text!r} as a size: expected a number and a unit, such as 24GiB")
        unit = (found[2] or "B").upper()
        if unit not in _UNITS:
            raise InputError(f"unknown unit {found[2]!r} in {text!r}: expected B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")
        nbytes = int(float(found[1]) * _UNITS[unit])
    if nbytes < 1:
        raise InputError(f"a memory of {text} holds nothing: expected at least one byte")
    return nbytes


def format_bytes(nbytes: float) -> str:
    """Three digits and a unit: 12.3 GiB."""
    for unit, size in _SHOWN:
        if nbytes >= size:
            value = nbytes / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{nbytes:.0f} B"
