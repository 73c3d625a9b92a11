"""What a file claims, against what it holds and the memory at hand: compared before anything is allocated.

A few bytes of a header can ask for any amount of memory. Arrays that are stored as they are must be there byte by byte;
packed ones may grow, but not out of all proportion: fields of real data do not shrink to a two-hundredth.
"""

from __future__ import annotations

from halfwave.errors import InputError
from halfwave.numerics import free_memory_bytes

UNQUESTIONED = 64 * 2**20
"""Bytes that may be taken without a question: by two arrays, each of them twice while it is unpacked."""
_MOST_GROWTH = 200


def check_stored(where: str, claimed: int, stored: int) -> None:
    """InputError where an array that is stored as it is claims more bytes than there are."""
    if claimed > stored:
        raise InputError(f"{where} claims {in_bytes(claimed)}, of which {in_bytes(stored)} are there")


def check_packed(where: str, claimed: int, stored: int) -> None:
    """InputError where `stored` bytes claim to unpack to more than packed fields do."""
    if claimed > max(UNQUESTIONED, _MOST_GROWTH * stored):
        raise InputError(
            f"{where} claims to unpack {in_bytes(stored)} to {in_bytes(claimed)}, more than {_MOST_GROWTH} times as "
            f"much; data that are meant so must be stored without compression"
        )


def check_memory(where: str, needed: int) -> None:
    """InputError where `needed` bytes are to be read at once and are not free."""
    if needed > UNQUESTIONED and needed > (free := free_memory_bytes()):
        raise InputError(f"{where} takes {in_bytes(needed)} of memory; {in_bytes(free)} are free")


def in_bytes(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}" if count < 10**15 else f"{count / size:.0e} {unit}"
    return f"{count} bytes"
