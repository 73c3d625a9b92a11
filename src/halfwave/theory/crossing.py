"""Where half precision is free: the grids on which rounding stays below what discretization can cost anyway."""

from __future__ import annotations

from halfwave.errors import InputError
from halfwave.numerics import Format
from halfwave.theory.bound import Number, read_number
from halfwave.theory.overflow import largest_scale
from halfwave.theory.precision import Algorithm, bound_precision, read_algorithm
from halfwave.theory.roundoff import read_format

_LARGEST_SIDE = 1 << 30


def crossover(
    format: str | Format, dimension: int, lipschitz_over_sup: Number, algorithm: str | Algorithm = "inputs"
) -> int:
    """The largest grid side m whose precision bound is at most the worst-case discretization error; 0 if none.

    The worst case over |v| <= M with Lipschitz constant L (`lower_bound_discretization`, along one axis) is at least
    max(min(L, 2M)/(2m), min(L/(4m), M)); precision costs p M, so m* is about (L/M)/(2p) for L <= 2M.
    ``"gemm"`` sums axis by axis: d (m-1) additions. ``"fft"`` searches powers of two, prescaled against overflow.

    This is a statement about the worst function of a class. Smooth data have far smaller discretization errors, and
    there rounding shows much earlier: measure (`discretization_error`, `precision_error`).
    """
    target, chosen = read_format(format), read_algorithm(algorithm)
    ratio = read_number("lipschitz_over_sup", lipschitz_over_sup, positive=True)
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
        raise InputError(f"dimension must be an integer >= 1, got {dimension!r}")

    def free(side: int) -> bool:
        worst = max(min(ratio, 2.0) / (2.0 * side), min(ratio / (4.0 * side), 1.0))
        return relative_precision(target, dimension, side, chosen) <= worst

    side = 1
    if not free(side):
        return 0
    while side < _LARGEST_SIDE and free(2 * side):
        side *= 2
    if chosen.name == "fft" or side >= _LARGEST_SIDE:
        return side
    below, above = side, 2 * side
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if free(middle) else (below, middle)
    return below


def relative_precision(format: Format, dimension: int, side: int, algorithm: Algorithm) -> float:
    """p: the precision bound for |v| <= 1 on a grid of `side` points along each of `dimension` axes.

    An FFT is prescaled so that it cannot overflow; the relative part is what counts here, and a larger v only makes
    the absolute part smaller.
    """
    if algorithm.name == "fft":
        sides: tuple[int, ...] = (side,) * dimension
        scale = min(algorithm.scale, largest_scale(format, sides, 1.0))
        return float(bound_precision(format, sides, sup=1.0, algorithm="fft", scale=scale))
    # Axis by axis a sum has d (m-1) additions in all, as many as along one axis of d (m-1) + 1 points.
    additions = dimension * (side - 1) + 1
    return float(
        bound_precision(
            format,
            additions,
            sup=1.0,
            algorithm=algorithm.name,
            accumulate=algorithm.accumulate,
            scale=algorithm.scale,
            products_rounded=algorithm.products_rounded,
            output_cast=algorithm.output_cast,
        )
    )
