"""What a test of one term of a bound needs: the assertion, and arithmetic that is as bad as a theorem allows.

Theorems on sums and FFTs hold for every arithmetic with |fl(x) - x| <= unit |x|. Real roundings cancel; here every one
has the same sign and full size, so that a term is reached and not merely not exceeded.
"""

from __future__ import annotations

import numpy as np


def reaches(observed, term, bound):
    """The error is within its bound and at least half of the term that the case was made for."""
    # Terms compared one by one are not rounded outward yet.
    assert observed <= float(bound) * (1 + 1e-12), (observed, float(bound))
    assert observed >= float(term) / 2, (observed, float(term))


def worst_sum(products, unit):
    """A sum from first to last, each product and each partial sum too large by `unit`: (..., T) to (...)."""
    total = products[..., 0] * (1 + unit)
    for n in range(1, products.shape[-1]):
        total = (total + products[..., n] * (1 + unit)) * (1 + unit)
    return total


def worst_product(unit):
    """left @ right by `worst_sum`."""

    def product(left, right):
        return worst_sum(left[..., :, None, :] * np.moveaxis(right, -1, -2)[..., None, :, :], unit)

    return product


def worst_fft(x, u, mu, rho, *, skip=2, lost=0.0):
    """A radix-2 FFT of (n,) numbers with each sum, twiddle factor and product too large by u, mu and rho.

    The first `skip` stages do not multiply. Each product of a later one also loses the complex number `lost`.
    """
    n = len(x)
    bits = n.bit_length() - 1
    order = [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(n)]
    values, half, stage = np.asarray(x, dtype=complex)[order], 1, 0
    while half < n:
        blocks = values.reshape(-1, 2, half)
        a, b = blocks[:, 0], blocks[:, 1] * np.exp(-1j * np.pi * np.arange(half) / half)
        if stage >= skip:
            b = b * (1 + mu) * (1 + rho) + lost
        values = (np.stack([a + b, a - b], axis=1) * (1 + u)).reshape(n)
        half, stage = 2 * half, stage + 1
    return values
