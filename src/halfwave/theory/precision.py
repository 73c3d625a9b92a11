"""How far a Fourier coefficient computed in a number format is from the exact grid coefficient.

Prec = |(1/n) sum_j v(xi_j) phi(xi_j) - computed|. Three algorithms: only the inputs are rounded (the paper's
definition), a matrix product with an accumulator, and a radix-2 FFT with every operation in the format.
Every bound has the form mean|v| (a - 1) + b: a collects relative errors, b what underflow can add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from halfwave.errors import InputError
from halfwave.numerics import FORMATS, Accumulation, Format
from halfwave.theory.bound import Bound, Number, all_known, outward_up, read_number, upper
from halfwave.theory.growth import Growth
from halfwave.theory.lattice import Integers, read_grid
from halfwave.theory.overflow import fft_growth, fft_losses, fft_peak
from halfwave.theory.roundoff import (
    Accumulator,
    Roundoff,
    holds,
    part_moduli,
    part_products,
    product_growth,
    read_accumulation,
    read_format,
    roundoff_in,
    roundoff_of,
)

AlgorithmName = Literal["inputs", "gemm", "fft"]


@dataclass(frozen=True)
class Algorithm:
    """How the coefficient is computed.

    Attributes:
        name: ``"inputs"``, ``"gemm"`` or ``"fft"``.
        accumulate: gemm only: the accumulator's format (rounding to nearest), an `Accumulation` (what a device does),
            or a unit roundoff where the rounding is of another kind and the exponent range is that of fp32.
        scale: v is multiplied by it before rounding, and the result divided by it, both exactly (a power of two).
        products_rounded: gemm only: each product is rounded to the format before it is added.
        output_cast: gemm only: the mean is rounded to the format.
    """

    name: AlgorithmName = "inputs"
    accumulate: Accumulator = "fp32"
    scale: float = 1.0
    products_rounded: bool = False
    output_cast: bool = False

    def __post_init__(self) -> None:
        if self.name not in get_args(AlgorithmName):
            raise InputError(f"unknown algorithm {self.name!r}: expected one of {', '.join(get_args(AlgorithmName))}")
        read_number("scale", self.scale, positive=True)
        options = self.products_rounded or self.output_cast or self.accumulate not in ("fp32", FORMATS["fp32"])
        if options and self.name != "gemm":
            raise InputError(f"accumulate, products_rounded and output_cast belong to 'gemm', not to {self.name!r}")
        read_accumulation(self.accumulate)

    @property
    def sums(self) -> Accumulation:
        return read_accumulation(self.accumulate)


def read_algorithm(algorithm: str | Algorithm) -> Algorithm:
    return algorithm if isinstance(algorithm, Algorithm) else Algorithm(algorithm)  # type: ignore[arg-type]


def bound_precision(
    format: str | Format,
    grid: Integers,
    *,
    sup: Number | None = None,
    mean: Number | None = None,
    algorithm: AlgorithmName = "inputs",
    accumulate: Accumulator = "fp32",
    scale: float = 1.0,
    products_rounded: bool = False,
    output_cast: bool = False,
) -> Bound:
    """An upper bound on Prec for every frequency, from sup|v| or (sharper) the mean of |v| on the grid.

    - inputs: a = (1+u')(1+mu), b = eta (1+mu);
    - gemm: then rounded products (a(1+u'), b(1+u') + sqrt2 eta), n-1 additions in any order (both times
      1 + (n-1) u_acc; for products by bf16 parts `product_growth`) and the output cast (as the products);
    - fft: a = (1+u')G, b = (1 + c) eta G, G = (1+u')^log2(n) [(1+mu)(1+rho)]^(sum_k max(log2 m_k - 2, 0)), c the
      losses of the butterflies, below 1/sqrt2 (`fft_losses`).

    b is divided by `scale`. `grid`: an int is one axis; a sequence gives the sides. The value is inf where the data
    may overflow. Limits: fft needs powers of two; options are those of `Algorithm`.
    """
    target, sides = read_format(format), read_grid(grid)
    chosen = Algorithm(algorithm, accumulate, scale, products_rounded, output_cast)
    if sup is None and mean is None:
        raise InputError("bound_precision needs sup (|v| <= sup) or mean (the mean of |v| on the grid): got neither")
    peak = math.inf if sup is None else read_number("sup", sup)
    average = min(peak, math.inf if mean is None else read_number("mean", mean))
    points = math.prod(sides)
    # The largest of n values is at most n times their mean: enough to exclude overflow when sup is not given.
    peak = min(peak, points * average)
    if chosen.name == "fft":
        relative, absolute = _fft(roundoff_of(target), sides)
        fits = fft_peak(target, sides, average, scale) <= target.largest
    else:
        relative, absolute = _products(target, chosen, points)
        fits = _fits(target, chosen, points, peak, average, relative, absolute)
    known = all_known(sup, mean) and (chosen.name != "gemm" or chosen.sums.known)
    assumptions = _assumptions(target, chosen, sup, mean)
    if fits or (sup is None and chosen.name != "fft"):
        extra = () if fits else (f"no |v| exceeds {target.largest / scale:.6g}",)
        value = average * relative.excess + absolute / scale
        return upper(value, _THEOREMS[chosen.name], assumptions + extra, known)
    theorem = f"{_THEOREMS[chosen.name]}; {target.name} may overflow: prescale"
    return upper(math.inf, theorem, assumptions, known)


_THEOREMS = {
    "inputs": "P1 (rounded inputs)",
    "gemm": "P2 (matrix product)",
    "fft": "P3 (radix-2 FFT in the format)",
}


def _products(target: Format, chosen: Algorithm, points: int) -> tuple[Growth, float]:
    """(a, b) for rounded inputs and, for gemm, what follows them."""
    unit = roundoff_of(target)
    mode = Growth(unit.unit_error())
    a, b = unit.growth * mode, unit.absolute * mode.factor
    if chosen.name == "inputs":
        return a, b
    if chosen.products_rounded:
        a, b = _rounded(a, b, unit)
    a, b = _accumulated(a, b, target, chosen, points)
    return _rounded(a, b, unit) if chosen.output_cast else (a, b)


def _rounded(a: Growth, b: float, unit: Roundoff, times: int = 1) -> tuple[Growth, float]:
    """A complex number rounded part by part: relative u', absolute sqrt2 eta; or a sum of `times` such numbers."""
    return a * unit.growth, b * unit.growth.factor + times * math.sqrt(2.0) * unit.absolute


def _accumulated(a: Growth, b: float, target: Format, chosen: Algorithm, points: int) -> tuple[Growth, float]:
    sums = chosen.sums
    if chosen.products_rounded:
        exact = holds(sums.format, target)
    else:
        # Products have 2p bits and reach down to the square of the smallest subnormal.
        digits = target.precision if target.parts == 1 else FORMATS["bf16"].precision
        exact = sums.nearest and 2 * digits <= sums.format.precision
        exact = exact and target.smallest_subnormal**2 >= sums.format.smallest_subnormal
    # A sum is flushed at most once for each product, and a product that is flushed leaves no sum to flush.
    if not exact or sums.flushes:
        a, b = _rounded(a, b, roundoff_in(sums), part_products(target))
    growth = product_growth(sums, points - 1, target)
    return a * growth, b * growth.factor


def _fft(unit: Roundoff, sides: tuple[int, ...]) -> tuple[Growth, float]:
    growth = fft_growth(unit, sides)
    return unit.growth * growth, (1.0 + fft_losses(sides)) * unit.absolute * growth.factor


def _fits(
    target: Format, chosen: Algorithm, points: int, peak: float, average: float, relative: Growth, absolute: float
) -> bool:
    """No input, no sum and no output leaves its format."""
    if chosen.scale * peak > target.largest:
        return False
    if chosen.name == "inputs":
        return True
    mean = outward_up(chosen.scale * average * relative.factor + absolute)
    product = outward_up(chosen.scale * peak * relative.factor + absolute)
    sums = points * mean * part_moduli(target) <= chosen.sums.format.largest
    return sums and (not chosen.products_rounded or product <= target.largest) and mean <= target.largest


def _assumptions(target: Format, chosen: Algorithm, sup: Number | None, mean: Number | None) -> tuple[str, ...]:
    texts = [] if sup is None else [f"|v| <= {float(sup):.6g}"]
    if mean is not None:
        texts.append(f"mean of |v| on the grid <= {float(mean):.6g}")
    texts.append(f"{target.name} rounds to nearest with gradual underflow")
    if chosen.name == "gemm":
        texts.append(f"sums accumulate in {chosen.sums}, in any order")
    if chosen.name == "fft":
        texts.append("radix-2 butterflies axis by axis, twiddle factors rounded from exact ones, sum divided by n")
    return tuple(texts)
