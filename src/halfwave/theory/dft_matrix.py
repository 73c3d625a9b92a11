"""How far a Fourier matrix is from itself after rounding: the spectral norm of its rounding errors.

Delta_{wj} = q(s e^{-2 pi i w j/m})/s - e^{-2 pi i w j/m} for the kept frequencies w and the m points of an axis. As a
map from root-mean-square over points to l2 over frequencies (or back) its norm is ||Delta||_2/sqrt(m). Entry by entry
it is at most sqrt(K) mu, but rounding errors do not conspire: the norm itself, which is fixed once m, K and the format
are, is about mu (1 + sqrt(K/m)). It is computed, so the bound that uses it remains a guarantee.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from halfwave.numerics import Format, round_to
from halfwave.theory.roundoff import Roundoff

# Beyond this many entries the norm is bounded entry by entry: computing it would take longer than a second.
_ENTRIES = 1 << 21
# cos and sin of an angle that float64 rounds: the exact matrix of a program differs from the mathematical one by this.
_ANGLE = 2e-15


def matrix_error(side: int, kept: int, format: Format, unit: Roundoff, scales: tuple[float, ...]) -> float:
    """The largest ||Delta||_2/sqrt(m) over the entry scales that a pipeline may use.

    Covers every set of frequencies within |w| <= kept/2 + 1 (conventions differ by one at the ends).
    """
    frequencies = min(side, 2 * (kept // 2) + 3)
    slack = _ANGLE * math.sqrt(frequencies)
    # Rounding to a wider format than float64's own matrices shows nothing; flushed subnormals are not in round_to,
    # but no entry is subnormal in a format with the range of fp32: zeros of the cosine come out as 6e-17.
    flushed = unit.flushed > 0 and format.smallest_normal > 1e-30
    unseen = format.precision >= 50 or flushed
    if unseen or side * frequencies > _ENTRIES:
        return slack + max(math.sqrt(frequencies) * unit.unit_error(scale) for scale in scales)
    return slack + max(_computed(side, frequencies, format, scale) for scale in scales)


@lru_cache(maxsize=512)
def _computed(side: int, frequencies: int, format: Format, scale: float) -> float:
    half = frequencies // 2
    products = np.outer(np.arange(-half, frequencies - half), np.arange(side)) % side
    exact = np.exp(-2j * np.pi * np.arange(side) / side)
    error = _rounded(exact, format, scale) - exact
    return spectral_norm(error[products]) / math.sqrt(side)


def _rounded(values: NDArray[np.complex128], format: Format, scale: float) -> NDArray[np.complex128]:
    parts = (round_to(torch.from_numpy(part * scale), format).numpy() / scale for part in (values.real, values.imag))
    real, imaginary = parts
    return real + 1j * imaginary


def spectral_norm(matrix: NDArray[np.complex128]) -> float:
    """||A||_2 from above: by eigenvalues of the Gram matrix, or by its Schatten-16 norm where that is large.

    Schatten norms fall to the spectral norm as p grows: (sum sigma^16)^(1/16) is at most K^(1/16) times too large.
    """
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.conj().T
    gram = small @ small.conj().T
    size = float(np.abs(gram).max())
    if size == 0.0:
        return 0.0
    gram = gram / size
    if gram.shape[0] <= 300:
        # Errors of a symmetric eigenvalue solver are a few units of float64 times the norm.
        return math.sqrt(size * float(np.linalg.eigvalsh(gram)[-1])) * (1.0 + 1e-9)
    exponent = 1
    for _ in range(2):
        gram = gram @ gram
        exponent *= 2
    return math.sqrt(size) * float(np.linalg.norm(gram)) ** (0.5 / exponent) * (1.0 + 1e-9)
