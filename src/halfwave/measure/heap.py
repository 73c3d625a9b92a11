"""The C library's heap: what becomes of large blocks that are freed.

glibc maps every block above 32 MiB anew and gives it back when it is freed, so that each page of each large tensor is
faulted in again in every step. On a GPU torch's caching allocator does away with the like.
"""

from __future__ import annotations

import ctypes
import os

# From glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGE = 1 << 30
_NEVER = (1 << 31) - 1


def keep_freed_blocks() -> bool:
    """From now on blocks of up to 1 GiB stay with the process when they are freed, for the next tensor of their size.

    For processes that train and nothing else: resident memory stays at its peak, as on a GPU. Counted bytes do not
    change. Returns False, and does nothing, where the C library has no such setting (it is glibc's) or the user has set
    it by MALLOC_MMAP_THRESHOLD_.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGE)) and bool(set_option(_TRIM_THRESHOLD, _NEVER))
