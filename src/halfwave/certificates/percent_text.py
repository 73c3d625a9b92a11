"""A share as a percentage, as people read it."""

from __future__ import annotations

import math

from torch import Tensor


def percent(value: float | Tensor) -> str:
    """Two digits, in words that need no exponent down to a millionth."""
    share = 100 * float(value)
    if not math.isfinite(share):
        return "infinitely much"
    if share == 0 or abs(share) >= 1e-5:
        digits = 1 if share == 0 else max(0, 1 - math.floor(math.log10(abs(share))))
        return f"{share:.{digits}f}%"
    return f"{share:.1e}%"
