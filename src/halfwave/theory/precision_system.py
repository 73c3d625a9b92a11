"""The (a0, eps, T)-precision system: the paper's model of a number format.

S = {0} and +-a0 (1+eps)^i for i = 0..T; q(x) is the nearest element. A binary format is close to the system with
a0 its smallest normal number and eps its spacing, but has subnormal numbers below and overflows where S saturates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfwave.errors import InputError
from halfwave.theory.bound import Bound, Number, all_known, outward_down, read_number, upper


@dataclass(frozen=True)
class PrecisionSystem:
    """S and its quantizer.

    Attributes:
        a0: the smallest positive number.
        eps: the ratio of neighbours less 1.
        steps: T; the largest number is a0 (1+eps)^T.
    """

    a0: float
    eps: float
    steps: int

    def __post_init__(self) -> None:
        read_number("a0", self.a0, positive=True)
        read_number("eps", self.eps, positive=True)
        if not isinstance(self.steps, int) or isinstance(self.steps, bool) or self.steps < 0:
            raise InputError(f"steps must be an integer >= 0, got {self.steps!r}")
        if math.log(self.a0) + self.steps * math.log1p(self.eps) > 709.0:
            raise InputError(f"a0 (1+eps)^steps is beyond float64 for a0={self.a0}, eps={self.eps}, steps={self.steps}")

    @property
    def largest(self) -> float:
        """a_max = a0 (1+eps)^T."""
        return self.a0 * math.exp(self.steps * math.log1p(self.eps))

    @property
    def relative(self) -> float:
        """delta = eps/(2+eps): the relative error half way between neighbours."""
        return self.eps / (2.0 + self.eps)

    @property
    def absolute(self) -> float:
        """eta = a0/2: the largest error below a0."""
        return self.a0 / 2.0

    def quantize(self, x: ArrayLike) -> NDArray:
        """q(x), vectorised; complex numbers part by part. Ties go to the element of smaller modulus."""
        values = np.asarray(x)
        if np.iscomplexobj(values):
            return self.quantize(values.real) + 1j * self.quantize(values.imag)
        size = np.abs(values.astype(np.float64))
        with np.errstate(divide="ignore"):
            position = np.floor((np.log(size) - math.log(self.a0)) / math.log1p(self.eps))
        # The logarithm may land one step off: the nearest of four candidates and 0 is the nearest of all.
        base = np.clip(np.nan_to_num(position, neginf=0.0), 0, self.steps)
        candidates = [np.zeros_like(size)]
        for shift in (-1, 0, 1, 2):
            candidates.append(self.level(np.clip(base + shift, 0, self.steps)))
        stacked = np.stack(candidates)
        nearest = np.take_along_axis(stacked, np.abs(stacked - size).argmin(axis=0)[None], axis=0)[0]
        return np.copysign(nearest, values)

    def level(self, index: ArrayLike) -> NDArray[np.float64]:
        """a0 (1+eps)^i."""
        return self.a0 * np.exp(np.asarray(index, dtype=np.float64) * math.log1p(self.eps))

    def error(self, size: float) -> float:
        """The largest |q(x) - x| over |x| <= size: max(delta size, min(size, eta), size - a_max)."""
        # a_max is off by up to 1e-13 of itself, which the difference would inherit: taken from below.
        return max(self.relative * size, min(size, self.absolute), size - outward_down(self.largest))

    def mode_error(self) -> float:
        """The largest |q(phi) - phi| over |phi| = 1.

        hypot(delta, eta) if at most one part can be below a0 (a0 <= 1/sqrt2) and 1 is in range; else both parts may
        err as much as they like: sqrt2 max(delta, min(1, eta), 1 - a_max).
        """
        if self.a0 <= math.sqrt(0.5) and self.largest >= 1.0:
            return math.hypot(self.relative, self.absolute)
        return math.sqrt(2.0) * self.error(1.0)


def bound_precision_system(sup: Number, a0: float, eps: float, steps: int) -> Bound:
    """Prec <= M e_phi + e_v (1 + e_phi) for every |v| <= M = sup, grid, dimension and frequency.

    e_v and e_phi are `PrecisionSystem.error(M)` and `mode_error()`. Nothing saturates iff M <= a0 (1+eps)^T; beyond
    it the bound holds and says how much is lost.
    """
    system = PrecisionSystem(a0, eps, steps)
    size = read_number("sup", sup)
    phi, value = system.mode_error(), system.error(size)
    range_text = "in range" if size <= system.largest else f"saturating beyond {system.largest:.4g}"
    assumptions = (f"|v| <= {size:.6g} ({range_text})", f"(a0, eps, T) = ({a0:.4g}, {eps:.4g}, {steps})")
    return upper(size * phi + value * (1.0 + phi), "P0 (precision system)", assumptions, all_known(sup))
