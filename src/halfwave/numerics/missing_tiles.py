"""CPUs that claim matrix tiles (Intel AMX) and have none: some virtual machines pass the flag on and not the tiles.

oneDNN, which multiplies bf16 for torch, believes the flag and dies of an illegal instruction in the first product. The
CPU itself tells: leaf 7 of `cpuid` has the flag, leaf 1D the layouts ("palettes") that tiles can have; there it has
none, or there is no such leaf.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from functools import lru_cache

# uint32_t registers[4] = cpuid(leaf, 0) by the calling convention of Linux: rdi is the leaf, rsi where they go.
_CPUID = bytes.fromhex("53 89f8 31c9 0fa2 8906 895e04 894e08 89560c 5b c3")
_EXTENDED_FEATURES, _TILES = 0x7, 0x1D
_TILE_FLAG = 1 << 24  # of edx


@lru_cache(maxsize=1)
def tiles_are_missing() -> bool:
    """Whether this CPU says that it has tiles, and that there is no layout for them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    claimed = bool(_cpuid(_EXTENDED_FEATURES)[3] & _TILE_FLAG)
    told = _cpuid(0)[0] >= _TILES  # a leaf beyond the last one answers as another does
    return claimed and not (told and _cpuid(_TILES)[0] > 0)


def avoid_missing_tiles() -> None:
    """Keep oneDNN from tiles that are not there; for whoever multiplies bf16 all the same, a peer under autocast.

    To be called before the first product of the process: oneDNN asks its environment once.
    """
    if tiles_are_missing():
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def _cpuid(leaf: int) -> tuple[int, int, int, int]:
    """(eax, ebx, ecx, edx); zeros where the system runs no code that is written to memory."""
    registers = (ctypes.c_uint32 * 4)()
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return 0, 0, 0, 0
    page.write(_CPUID)
    start = ctypes.c_char.from_buffer(page)
    ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)(ctypes.addressof(start))(leaf, registers)
    del start  # a page that is looked at cannot be closed
    page.close()
    return registers[0], registers[1], registers[2], registers[3]
