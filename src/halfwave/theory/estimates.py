"""Constants of a function estimated from its samples: useful figures, never guarantees.

A sampled maximum of difference quotients is at most the true constant, and nothing bounds how far below it lies.
For the multilinear interpolant of the samples the same figures are exact (`Interpolant`): that is the function for
which a guarantee can be had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from halfwave.theory.bound import Estimate
from halfwave.theory.interpolant import Interpolant


def estimate_lipschitz(samples: ArrayLike, *, periodic: bool = False) -> tuple[Estimate, ...]:
    """One Lipschitz constant for each axis, from neighbouring samples (K_1, ..., K_d).

    The samples span [0,1] with both ends, or the periodic cell without the repeated end.
    """
    sizes = Interpolant.from_samples(samples, periodic=periodic).lipschitz()[0]
    return _estimates(sizes, "largest difference quotient between neighbouring samples")


def estimate_variation(samples: ArrayLike, *, periodic: bool = False) -> tuple[Estimate, ...]:
    """The largest variation along sampled lines of each axis (round the circle if periodic)."""
    sizes = Interpolant.from_samples(samples, periodic=periodic).variation()[0]
    return _estimates(sizes, "largest variation along sampled lines")


def _estimates(sizes: np.ndarray, method: str) -> tuple[Estimate, ...]:
    return tuple(Estimate(float(size), method) for size in sizes)
